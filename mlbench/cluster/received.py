"""The samples that a node has received and not yet answered."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NoReturn

from mlbench.contracts.dataset import Dataset

_BEYOND = 1 << 40


class ReceivedSamples(Dataset):
    """Holds each sample from its arrival to its answer, and nothing longer: the rules allow no more.

    A sample has its index in the client's dataset, or, where another of that index is still unanswered, a number that
    is no index: it may have other content. May be used from any thread.
    """

    fingerprint = ""

    def __init__(self, sample_count: int) -> None:
        """Store how many samples the client's dataset has."""
        self.count = self.performance_count = sample_count
        self._samples: dict[int, Any] = {}
        self._keys: dict[int, int] = {}
        self._beyond = count(_BEYOND)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, serial: int, index: int, sample: Any) -> int:
        """Take a sample, and return the index that it has here."""
        key = next(self._beyond) if index in self._samples else index
        self._samples[key] = sample
        self._keys[serial] = key
        return key

    def remove(self, serials: Sequence[int]) -> None:
        """Forget samples that are answered; those that are unknown are left out."""
        for serial in serials:
            key = self._keys.pop(serial, None)
            if key is not None:
                self._samples.pop(key, None)

    def load(self, indices: Sequence[int]) -> NoReturn:
        """Do nothing: samples arrive."""
        raise LookupError("samples arrive, and cannot be loaded")

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing: samples are removed when they are answered."""

    def sample(self, index: int) -> Any:
        """Return a sample that has arrived."""
        return self._samples[index]
