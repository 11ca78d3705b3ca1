"""For each input the smallest, the usual and the largest shape, from its dimensions: TensorRT's profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlbench.contracts.graph import Dim, TensorSpec

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeRange:
    """The shapes that an engine takes of one input, and the one that it is fastest at."""

    smallest: Shape
    usual: Shape
    largest: Shape


def shape_ranges(specs: Sequence[TensorSpec]) -> Mapping[str, ShapeRange]:
    """Return the range of each input, by name."""
    return {
        spec.name: ShapeRange(
            tuple(_size(dim, "smallest") for dim in spec.shape),
            tuple(_size(dim, "usual") for dim in spec.shape),
            tuple(_size(dim, "largest") for dim in spec.shape),
        )
        for spec in specs
    }


def _size(dim: int | Dim, which: str) -> int:
    size: int = dim if isinstance(dim, int) else getattr(dim, which)
    return size
