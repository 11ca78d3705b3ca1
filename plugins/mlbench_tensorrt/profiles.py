"""Optimisation profiles: for each input the smallest, the usual and the largest shape, from a graph's dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlbench import Dim, TensorSpec, UsageError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The shapes that an engine takes of one input, and the one that it is fastest at."""

    smallest: Shape
    usual: Shape
    largest: Shape


def ranges(specs: Sequence[TensorSpec], caps: Mapping[str, int]) -> Mapping[str, Ranges]:
    """Return the ranges of each input, by name; caps on dimensions go by the dimension's name.

    Raises:
        UsageError: a cap is below a dimension's smallest size.
    """
    return {
        spec.name: Ranges(
            tuple(_size(dim, "smallest", caps) for dim in spec.shape),
            tuple(_size(dim, "usual", caps) for dim in spec.shape),
            tuple(_size(dim, "largest", caps) for dim in spec.shape),
        )
        for spec in specs
    }


def _size(dim: int | Dim, which: str, caps: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    size: int = getattr(dim, which)
    cap = caps.get(dim.name, dim.largest)
    if cap < dim.smallest:
        raise UsageError(
            f"backend.largest has {dim.name}={cap}, and the graph's smallest {dim.name} is {dim.smallest}.",
            hint="Raise the cap, or leave it out.",
        )
    return min(size, cap)
