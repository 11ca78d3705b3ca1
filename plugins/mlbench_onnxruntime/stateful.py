"""A session of a graph with state: the state stays where it lies, as input and output of each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime import OrtValue

from mlbench import LENGTH, NEXT, Graph
from mlbench.toolkit import copy_rows
from mlbench_onnxruntime.providers import Place
from mlbench_onnxruntime.row_copies import copy_whole_rows

CPU = "cpu"

DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(int32)": "int32"}
"""NumPy's names of a session's types."""

UPDATING = {"ScatterND": slice(0, 1), "GroupQueryAttention": slice(3, 5)}
"""Operators that copy some of their inputs and write updates into the copy; the updates alone where both are one."""


@dataclass(frozen=True, slots=True)
class OnnxState:
    """Tensors by name."""

    values: dict[str, Any]
    """As ONNX Runtime sees them."""
    arrays: dict[str, np.ndarray]
    """The same memory as NumPy sees it; empty where it is a device's."""
    bindings: dict[tuple[StatefulSession, int], Any] = field(default_factory=dict)
    """What sessions made of it, by session and number of rows: to bind it anew costs a tenth of a small step."""

    def replace(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Go on with other tensors, and drop the bindings that hold those in their place."""
        self.values.update(values)
        self.arrays.update(arrays)
        for key in [key for key in self.bindings if not key[0].kept.isdisjoint(values)]:
            del self.bindings[key]


class StatefulSession:
    """Runs a session, and updates a state with each call."""

    def __init__(self, session: Any, graph: Graph, file: Path, place: Place, *, takes_first_rows: bool = False) -> None:
        """Store a session.

        Args:
            session: of the file.
            graph: what it is.
            file: the graph in some precision.
            place: where the session runs.
            takes_first_rows: whether the file wants no more rows of the state than the inputs have.
        """
        self._session = session
        self._graph = graph
        self._place = place
        types = {each.name: DTYPES[each.type] for each in session.get_inputs() if each.type in DTYPES}
        self._dtypes = {spec.name: types[spec.name] for spec in graph.state}
        nodes = onnx.load(file, load_external_data=False).graph.node
        self._updated = find_updatable(nodes)
        self.kept = self._updated | find_passed_through(nodes)
        self._moving = [spec for spec in graph.state if spec.name not in self.kept]
        self._takes_first_rows = takes_first_rows

    def new_state(self, sizes: Mapping[str, int], /) -> OnnxState:
        """Return zeros."""
        return self._state(
            {spec.name: np.zeros(spec.concrete_shape(sizes), self._dtypes[spec.name]) for spec in self._graph.state}
        )

    def resize(self, state: OnnxState, sizes: Mapping[str, int], /) -> OnnxState:
        """Return larger tensors with the old contents at their beginning."""
        grown = {spec.name: np.zeros(spec.concrete_shape(sizes), self._dtypes[spec.name]) for spec in self._graph.state}
        for name, array in grown.items():
            old = state.values[name].numpy()
            array[tuple(map(slice, old.shape))] = old
        return self._state(grown)

    def copy_rows(self, state: OnnxState, sources: Sequence[int], targets: Sequence[int], columns: range, /) -> None:
        """Copy these columns of rows; on a device whole rows."""
        if self._place.memory != CPU:
            copy_whole_rows(self._place, state.values.values(), sources, targets)
            return
        for spec in self._graph.state:
            axis = spec.axis_of(LENGTH)
            part = state.arrays[spec.name][(slice(None),) * axis + (slice(columns.start, columns.stop),)]
            copy_rows(part, sources, targets)

    def __call__(self, inputs: Mapping[str, np.ndarray], state: OnnxState, /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own, and update the state."""
        binding = self._binding(len(inputs[self._graph.inputs[0].name]), state)
        for spec in self._graph.inputs:
            binding.bind_cpu_input(spec.name, np.ascontiguousarray(inputs[spec.name]))
        for spec in self._graph.outputs:
            binding.bind_output(spec.name, CPU)  # in each call: else it writes where it wrote before
        after = self._state(
            {spec.name: np.empty(state.values[spec.name].shape(), self._dtypes[spec.name]) for spec in self._moving}
        )
        for name, value in after.values.items():
            binding.bind_ortvalue_input(name, state.values[name])
            binding.bind_ortvalue_output(name + NEXT, value)
        self._session.run_with_iobinding(binding)
        state.replace(after.values, after.arrays)
        outputs = binding.get_outputs()  # in the order of binding: state comes last
        return {spec.name: value.numpy() for spec, value in zip(self._graph.outputs, outputs, strict=False)}

    def _binding(self, rows: int, state: OnnxState) -> Any:
        """Return a binding of a state to the session, outputs first; the same for calls of as many rows."""
        key = (self, rows if self._takes_first_rows else 0)
        if key not in state.bindings:
            binding = state.bindings[key] = self._session.io_binding()
            for spec in self._graph.outputs:
                binding.bind_output(spec.name, CPU)
            for name, value in self._taken(rows, state).items():
                binding.bind_ortvalue_input(name, value)
                if name in self._updated:
                    binding.bind_ortvalue_output(name + NEXT, value)
        return state.bindings[key]

    def _taken(self, rows: int, state: OnnxState) -> Mapping[str, OrtValue]:
        """Return the tensors that stay where they lie, or their first rows where that is all that the file takes."""
        if not self._takes_first_rows:
            return {name: state.values[name] for name in self.kept}
        return {name: OrtValue.ortvalue_from_numpy(state.arrays[name][:rows]) for name in self.kept}

    def _state(self, arrays: dict[str, np.ndarray]) -> OnnxState:
        where = (self._place.memory, self._place.device)
        values = {name: OrtValue.ortvalue_from_numpy(array, *where) for name, array in arrays.items()}
        return OnnxState(values, arrays if self._place.memory == CPU else {})


def find_updatable(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Return the names of state tensors that may be updated in place: nothing reads them but the operator that does it.

    Another reader might come after it, and read what is meant for the next call.
    """
    if any(part.HasField("g") or part.graphs for node in nodes for part in node.attribute):
        return set()  # a graph within may read whatever is around it
    reads = [node for node in nodes if node.op_type != "Shape"]
    readers = Counter(name for node in reads for name in node.input)
    return {
        name
        for node in reads
        if node.op_type in UPDATING
        for name in node.input[UPDATING[node.op_type]]
        if name + NEXT in node.output and readers[name] == 1
    }


def find_passed_through(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Return the names of state tensors that come out as they went in: what comes out needs no memory."""
    same = {node.output[0]: node.input[0] for node in nodes if node.op_type == "Identity"}
    found = set()
    for output in same:
        source = output
        while source in same:
            source = same[source]
        if source + NEXT == output:
            found.add(source)
    return found
