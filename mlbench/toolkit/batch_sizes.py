"""Sizes of batches that something was made for, a recording or a plan: which of them serves a batch."""

from __future__ import annotations

from bisect import bisect_left

from mlbench.contracts.graph import Dim, Graph

MOST_ROWS = 1024
"""For calls of a graph that may have more, nothing is made ahead: their kernels take longer than starting them."""


def has_batches(graph: Graph) -> bool:
    """Return whether calls differ in nothing but the number of rows, the same in all tensors, and have few of them."""
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
        """Return the smallest size that has room for so many rows, if it is less than twice as many."""
        place = bisect_left(self._ascending, rows)
        size = self._ascending[place] if place < len(self._ascending) else 2 * rows
        return size if size < 2 * rows else None
