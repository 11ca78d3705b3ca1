"""Sizes of recorded or planned batches, and the choice of one for a batch."""

from __future__ import annotations

from bisect import bisect_left

from mlbench.contracts.graph import Dim, Graph

MOST_ROWS = 1024
"""Most rows of a graph whose calls are recorded or planned: with more, kernels take longer than starting them."""


def has_batches(graph: Graph) -> bool:
    """Return whether calls differ only in the number of rows, which all tensors share, and have few rows."""
    shapes = [spec.shape for spec in (*graph.inputs, *graph.outputs)]
    rows = shapes[0][0] if shapes[0] else None
    varying = [size for shape in shapes for size in shape[1:] if isinstance(size, Dim)]
    is_shared = all(shape[:1] == (rows,) for shape in shapes)
    return isinstance(rows, Dim) and rows.largest <= MOST_ROWS and is_shared and not varying


class BatchSizes:
    """Sizes of batches, of which a larger one serves for a smaller batch: rows do not depend on each other."""

    def __init__(self) -> None:
        self._ascending: list[int] = []

    def __len__(self) -> int:
        return len(self._ascending)

    def add(self, size: int) -> None:
        """Add a size that is not there."""
        self._ascending.insert(bisect_left(self._ascending, size), size)

    def serving(self, rows: int) -> int | None:
        """Return the smallest size that fits a number of rows, if it is less than twice as large."""
        place = bisect_left(self._ascending, rows)
        size = self._ascending[place] if place < len(self._ascending) else 2 * rows
        return size if size < 2 * rows else None
