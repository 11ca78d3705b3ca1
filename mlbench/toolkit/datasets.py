"""Data sets whose samples are in memory: all the time, or from when they are loaded until they are unloaded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from mlbench.contracts.dataset import Dataset
from mlbench.system.processor import usable_threads

if TYPE_CHECKING:
    import numpy as np

S = TypeVar("S")
"""A sample."""


class StoredSamples(Dataset, Generic[S]):
    """Samples that stay in memory; loading does nothing."""

    fingerprint: str = ""

    def __init__(self, samples: Sequence[S], fingerprint: str) -> None:
        """Store samples, and a hash of the data."""
        self.count = self.performance_count = len(samples)
        self.fingerprint = fingerprint
        self._samples = samples

    def load(self, indices: Sequence[int]) -> None:
        """Do nothing."""

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing."""

    def sample(self, index: int) -> S:
        """Return a sample."""
        return self._samples[index]


class LoadedSamples(Dataset, Generic[S]):
    """Samples that are in memory while LoadGen has them loaded."""

    fingerprint: str = ""

    def __init__(self, *, count: int, performance_count: int | None = None, fingerprint: str) -> None:
        """Store the sizes.

        Args:
            count: number of samples.
            performance_count: number of samples that a performance run may keep loaded; None: all.
            fingerprint: a hash of the data.
        """
        self.count = count
        self.performance_count = count if performance_count is None else min(performance_count, count)
        self.fingerprint = fingerprint
        self._loaded: dict[int, S] = {}

    @abstractmethod
    def make(self, indices: Sequence[int]) -> Sequence[S]:
        """Return the samples of these indices; raises `DataError` for a file that cannot be read."""

    def load(self, indices: Sequence[int]) -> None:
        """Make these samples and keep them."""
        self._loaded.update(zip(indices, self.make(indices), strict=True))

    def unload(self, indices: Sequence[int]) -> None:
        """Let these samples go."""
        for index in indices:
            self._loaded.pop(index, None)

    def sample(self, index: int) -> S:
        """Return a loaded sample."""
        return self._loaded[index]


def stack_images(
    image: Callable[[int], np.ndarray], indices: Sequence[int], shape: tuple[int, ...], dtype: str = "float32"
) -> np.ndarray:
    """Return the images of these indices in one block of memory, (images, *shape), made on all usable threads.

    Raises whatever ``image`` raised in a thread. The block is freed with the last of its images.
    """
    import numpy as np

    block = np.empty((len(indices), *shape), dtype=dtype)

    def fill(place: int) -> None:
        block[place] = image(indices[place])

    with ThreadPoolExecutor(usable_threads()) as threads:
        list(threads.map(fill, range(len(indices))))  # raises what a thread raised
    return block
