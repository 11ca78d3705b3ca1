"""A graph kept below its own largest sizes, for runtimes that reserve memory for the largest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contracts.graph import Dim, Executable, Graph, Precision, TensorSpec, Tolerance
from mlbench.errors import UsageError
from mlbench.toolkit.arrays import host_array

if TYPE_CHECKING:
    import numpy as np
    import torch


class CappedGraph(Graph):
    """The same function as another graph, for fewer sizes. The core reads them, and stays below the caps."""

    def __init__(self, graph: Graph, caps: Mapping[str, int]) -> None:
        """Store a graph and its caps, by the name of a dimension; names that it does not have are of no account.

        Raises:
            UsageError: a cap is below a dimension's smallest size.
        """
        self._graph = graph
        self.name = graph.name
        self.inputs = _capped(graph.inputs, caps)
        self.outputs = _capped(graph.outputs, caps)
        self.state = _capped(graph.state, caps)

    def module(self) -> torch.nn.Module:
        """Return the graph's module."""
        return self._graph.module()

    def onnx(self) -> Path:
        """Return the graph's file, which takes the larger sizes too."""
        return self._graph.onnx()

    def calibration(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the graph's inputs, of whatever size."""
        return self._graph.calibration()

    def precision(self, asked: Precision) -> Precision:
        """Return what the graph answers."""
        return self._graph.precision(asked)

    def tolerance(self, precision: Precision) -> Tolerance:
        """Return the graph's."""
        return self._graph.tolerance(precision)

    @property
    def fingerprint(self) -> str:
        """The graph's: its outputs are the same."""
        return self._graph.fingerprint


def in_pieces(run: Callable[[Mapping[str, np.ndarray]], Mapping[str, Any]], graph: Graph) -> Executable:
    """Return what makes calls with more rows than a graph takes in several, and puts their outputs together.

    Rows are the first axis of all outputs and of all inputs that vary at all, and no other axis; inputs of one shape
    are given to each piece. A graph that has none such is called as it is.
    """
    varying = [spec for spec in graph.inputs if any(isinstance(size, Dim) for size in spec.shape)]
    firsts = {spec.shape[0] if spec.shape else None for spec in (*varying, *graph.outputs)}
    rows = next(iter(firsts))
    further = {size for spec in (*varying, *graph.outputs) for size in spec.shape[1:]}
    if len(firsts) > 1 or not isinstance(rows, Dim) or rows in further or not varying or graph.state:
        return run
    split, most = [spec.name for spec in varying], rows.largest

    def run_in_pieces(inputs: Mapping[str, np.ndarray], /) -> Mapping[str, Any]:
        count = len(inputs[split[0]])
        if count <= most:
            return run(inputs)
        import numpy as np

        parts: list[Mapping[str, Any]] = []
        for start in range(0, count, most):
            part = {name: inputs[name][start : start + most] for name in split}
            parts.append(run({**inputs, **part}))
        return {name: np.concatenate([host_array(part[name]) for part in parts]) for name in parts[0]}

    return run_in_pieces


def _capped(specs: Sequence[TensorSpec], caps: Mapping[str, int]) -> tuple[TensorSpec, ...]:
    return tuple(replace(spec, shape=tuple(_capped_size(size, caps) for size in spec.shape)) for spec in specs)


def _capped_size(size: int | Dim, caps: Mapping[str, int]) -> int | Dim:
    if isinstance(size, int) or size.name not in caps:
        return size
    cap = caps[size.name]
    if cap < size.smallest:
        raise UsageError(
            f"backend.largest has {size.name}={cap}, and the graph's smallest {size.name} is {size.smallest}.",
            hint="Raise the cap, or leave it out.",
        )
    return replace(size, usual=min(size.usual, cap), largest=min(size.largest, cap))
