"""A dataset: LoadGen's query sample library, from a workload author's view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class Dataset(ABC):
    """Samples by index, ready for the program: decoded, resized and tokenised, which the rules leave untimed.

    A constructor reads labels or an index, to know the count, and raises `DataError` for a missing or corrupt file.
    """

    count: int
    """How many samples an accuracy run issues; indices are 0 .. count - 1."""

    performance_count: int
    """How many samples a performance run keeps loaded (LoadGen's performance sample count)."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the data, kept in the record."""

    @abstractmethod
    def load(self, indices: Sequence[int]) -> None:
        """Bring these samples into memory; untimed. Raises `DataError` for a file that cannot be read."""

    @abstractmethod
    def unload(self, indices: Sequence[int]) -> None:
        """Free these samples."""

    @abstractmethod
    def sample(self, index: int) -> Any:
        """Return a loaded sample in the form the program takes; called while measuring, so it must be a lookup."""
