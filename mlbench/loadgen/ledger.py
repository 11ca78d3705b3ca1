"""Which samples are out, and what was wrong with their replies."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mlbench.contracts.engine import Samples

_NAMED_FAULTS = 20


class Ledger:
    """Keeps every sample from its issue to its one answer. All methods may be called from any thread.

    A query answered whole, the usual case for a fast engine, costs one entry in `whole` however many samples it has;
    only a query answered in parts is taken apart.
    """

    def __init__(self) -> None:
        self.whole: dict[int, Samples] = {}
        """Open queries of which nothing is answered, by their first id. Python's own lock guards each step on it."""
        self.issued = 0
        """How many samples were issued; written by the thread that issues."""
        self._parts: dict[int, int] = {}  # open samples of the other queries: id -> index
        self._lock = threading.Lock()
        self._faults: list[str] = []
        self._fault_count = 0

    def open(self, samples: Samples) -> None:
        """Note that these samples were issued."""
        ids = samples.ids
        self.whole[ids[0]] = samples
        self.issued += len(ids)

    def close(self, samples: Samples) -> Samples:
        """Note an answer and return the samples it may answer: those that are open. Any other is a fault."""
        first = samples.ids[0]
        if (found := self.whole.pop(first, None)) is samples:
            return samples
        if found is not None:
            self.whole[first] = found
        with self._lock:
            self._take_apart()
            positions = [position for position, i in enumerate(samples.ids) if self._parts.pop(i, None) is not None]
        if len(positions) == len(samples):
            return samples
        closed = set(positions)
        refused = [index for position, index in enumerate(samples.indices) if position not in closed]
        self.fault(refused, "answered twice, or never asked")
        return samples.at(positions)

    def still_open(self, samples: Samples) -> Samples:
        """Return those of these samples that wait for their answer."""
        with self._lock:
            self._take_apart()
            return samples.at([position for position, i in enumerate(samples.ids) if i in self._parts])

    def open_samples(self) -> tuple[list[int], list[int]]:
        """Return the ids and dataset indices of all samples that wait for their answer."""
        with self._lock:
            self._take_apart()
            return list(self._parts), list(self._parts.values())

    def answered(self) -> int:
        """Return how many samples were answered, soundly or not."""
        return self.issued - sum(map(len, list(self.whole.values()))) - len(self._parts)

    def fault(self, indices: Sequence[int], reason: str) -> None:
        """Note that the replies to samples with these dataset indices were not sound."""
        with self._lock:
            self._fault_count += len(indices)
            room = max(0, _NAMED_FAULTS - len(self._faults))
            self._faults += [f"sample {index}: {reason}" for index in indices[:room]]

    def faults(self) -> list[str]:
        """Return the faults in order of discovery, a line each; beyond the first ones only their number."""
        with self._lock:
            more = self._fault_count - len(self._faults)
            return [*self._faults, *([f"and {more} more"] if more else [])]

    def _take_apart(self) -> None:
        while self.whole:
            try:
                _, samples = self.whole.popitem()
            except KeyError:  # another thread answered the last one just now
                return
            self._parts.update(zip(samples.ids, samples.indices, strict=True))
