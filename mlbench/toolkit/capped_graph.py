"""A graph with caps on its dimensions, for runtimes that reserve memory for the largest size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mlbench.contracts.graph import Array, Dim, Executable, Graph, TensorSpec
from mlbench.contracts.wrapped import WrappedGraph
from mlbench.errors import UsageError
from mlbench.execution.arrays import host_array

if TYPE_CHECKING:
    import numpy as np


class CappedGraph(WrappedGraph):
    """The same function as another graph, for fewer sizes. The core reads them, and stays below the caps.

    Its ONNX file and calibration inputs are the graph's, of whatever size; so is its fingerprint, as outputs are the
    same.
    """

    def __init__(self, graph: Graph, caps: Mapping[str, int]) -> None:
        """Store a graph and its caps, by the name of a dimension; names that it does not have are ignored.

        Raises:
            UsageError: a cap is below a dimension's smallest size.
        """
        super().__init__(graph)
        self.inputs = _cap_specs(graph.inputs, caps)
        self.outputs = _cap_specs(graph.outputs, caps)
        self.state = _cap_specs(graph.state, caps)


def in_pieces(run: Callable[[Mapping[str, np.ndarray]], Mapping[str, Array]], graph: Graph) -> Executable:
    """Return an executable that splits calls with more rows than a graph takes, and joins their outputs.

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

    def run_in_pieces(inputs: Mapping[str, np.ndarray], /) -> Mapping[str, Array]:
        count = len(inputs[split[0]])
        if count <= most:
            return run(inputs)
        import numpy as np

        parts: list[Mapping[str, Array]] = []
        for start in range(0, count, most):
            part = {name: inputs[name][start : start + most] for name in split}
            parts.append(run({**inputs, **part}))
        return {name: np.concatenate([host_array(part[name]) for part in parts]) for name in parts[0]}

    return run_in_pieces


def _cap_specs(specs: Sequence[TensorSpec], caps: Mapping[str, int]) -> tuple[TensorSpec, ...]:
    return tuple(replace(spec, shape=tuple(_cap_size(size, caps) for size in spec.shape)) for spec in specs)


def _cap_size(size: int | Dim, caps: Mapping[str, int]) -> int | Dim:
    if isinstance(size, int) or size.name not in caps:
        return size
    cap = caps[size.name]
    if cap < size.smallest:
        raise UsageError(
            f"backend.largest has {size.name}={cap}, but the graph's smallest {size.name} is {size.smallest}.",
            hint="Raise the cap, or leave it out.",
        )
    return replace(size, usual=min(size.usual, cap), largest=min(size.largest, cap))
