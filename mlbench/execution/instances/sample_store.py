"""A dataset whose samples are in the instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.wrapped import WrappedDataset


class SampleStore(WrappedDataset):
    """Loads and unloads samples in the instances, and holds none itself."""

    def __init__(
        self, dataset: Dataset, load: Callable[[Sequence[int]], None], unload: Callable[[Sequence[int]], None]
    ) -> None:
        """Store how to load, and the dataset that is loaded, for what is known of it here."""
        super().__init__(dataset)
        self._load = load
        self._unload = unload

    def load(self, indices: Sequence[int]) -> None:
        """Bring these samples into the memory of all instances."""
        self._load(indices)

    def unload(self, indices: Sequence[int]) -> None:
        """Free these samples."""
        self._unload(indices)

    def sample(self, index: int) -> NoReturn:
        """Never called: samples do not leave the instances."""
        raise LookupError(f"sample {index} is with the instances")
