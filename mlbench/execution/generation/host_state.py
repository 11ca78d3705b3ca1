"""State for backends that keep none: it is in host memory and passed to each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlbench.contracts.generation import LENGTH
from mlbench.contracts.graph import NEXT, Array, Executable, Graph, StatefulExecutable
from mlbench.errors import PluginError
from mlbench.execution.arrays import check_outputs, copy_rows, host_array


class HostState:
    """An executable of a graph's ONNX form as a `StatefulExecutable`.

    State goes in by name, and comes out as ``<name>.next``. Each call copies all of it, which is correct but slow.
    """

    def __init__(self, executable: Executable, graph: Graph) -> None:
        self._executable = executable
        self._graph = graph

    def new_state(self, sizes: Mapping[str, int], /) -> dict[str, np.ndarray]:
        """Return zeros."""
        return {spec.name: np.zeros(spec.concrete_shape(sizes), spec.dtype) for spec in self._graph.state}

    def resize(self, state: Any, sizes: Mapping[str, int], /) -> dict[str, np.ndarray]:
        """Return larger tensors with the old contents at their beginning."""
        grown = self.new_state(sizes)
        for name, tensor in state.items():
            grown[name][tuple(map(slice, tensor.shape))] = tensor
        return grown

    def copy_rows(self, state: Any, sources: Sequence[int], targets: Sequence[int], columns: range, /) -> None:
        """Copy these columns of rows."""
        for spec in self._graph.state:
            part = (slice(None),) * spec.axis_of(LENGTH) + (slice(columns.start, columns.stop),)
            copy_rows(state[spec.name][part], sources, targets)

    def __call__(self, inputs: Mapping[str, np.ndarray], state: Any, /) -> Mapping[str, Array]:
        """Compute, and keep the state that comes out."""
        returned = self._executable({**inputs, **state})
        check_outputs(returned, self._graph.name)
        outputs = dict(returned)
        for name in state:
            if (after := outputs.pop(name + NEXT, None)) is None:
                raise PluginError(
                    f"graph {self._graph.name} was compiled without its state: there is no output '{name}{NEXT}'.",
                    hint="Compile graph.onnx() with all its inputs and outputs, or return a StatefulExecutable.",
                )
            state[name] = np.require(host_array(after), requirements="W")
        return outputs


def stateful(compiled: Executable | StatefulExecutable, graph: Graph) -> StatefulExecutable:
    """Return a backend's executable of a graph with state; the core keeps the state if the backend does not."""
    return compiled if isinstance(compiled, StatefulExecutable) else HostState(compiled, graph)
