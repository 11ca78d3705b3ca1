"""A graph that OpenVINO compiled: once for all shapes, and again for sizes of batches that repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openvino

from mlbench import NEXT, Graph
from mlbench.toolkit import has_batches

MOST_SIZES = 12
"""Sizes of batches with a model each: the powers of two up to the largest batch that counts, and some more."""

_CHOOSING = ("Transpose", "VariadicSplit", "Split", "StridedSlice", "Slice", "Convert")
"""Operators that change no integer."""

MOST_WEIGHT_BYTES = 2**29
"""Limit of the weights in the models of all sizes, each of which has a copy of them."""


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """Where and how a graph is computed."""

    device: str
    computes_in: str
    """OpenVINO's name of the type: ``f32``."""
    threads: int
    """Threads of a call on the CPU."""


class _Request:
    """A compiled model with memory for one call at a time."""

    def __init__(self, compiled: openvino.CompiledModel) -> None:
        self._request = compiled.create_infer_request()
        self._outputs: list[tuple[Sequence[int] | None, np.dtype]] = [
            (
                tuple(output.shape) if output.partial_shape.is_static else None,
                np.dtype(output.get_element_type().to_dtype()),
            )
            for output in compiled.outputs
        ]

    def compute(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return all outputs in the file's order: where their shapes are known, in memory that OpenVINO writes to."""
        request = self._request
        for name, array in inputs.items():
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        found = [None if shape is None else np.empty(shape, dtype) for shape, dtype in self._outputs]
        for position, output in enumerate(found):
            if output is not None:
                request.set_output_tensor(position, openvino.Tensor(output, shared_memory=True))
        request.infer(share_outputs=True)
        return [
            request.get_output_tensor(position).data.copy() if output is None else output
            for position, output in enumerate(found)
        ]


class CompiledGraph:
    """Computes batches of a size that repeats by a model for that size alone, and others by one for all shapes.

    With the shape known, OpenVINO fuses more operators, lays out all memory beforehand and infers no shapes in a call.
    Compiling takes tenths of a second, so that it must happen in the warm-up. That runs the powers of two up to the
    largest batch, and no smaller one with another number of rows (`EnginePlan.batch`).
    """

    def __init__(self, graph: Graph, file: Path, core: openvino.Core, settings: DeviceSettings) -> None:
        """Compile the model for all shapes; raises RuntimeError where OpenVINO cannot."""
        self._core, self._settings, self._file = core, settings, file
        self._model, self._has_bags = with_embedding_bags(core.read_model(file))
        self._inputs = (*graph.inputs, *graph.state)
        self._outputs = [*(spec.name for spec in graph.outputs), *(spec.name + NEXT for spec in graph.state)]
        compiled = self._compile(self._model)
        self.computes_in: str = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        self._open = _Request(compiled)
        self._sizes: dict[int, _Request] = {}
        self._most_sizes = 0
        if has_batches(graph) and not graph.state:
            constants = (each for each in self._model.get_ops() if each.get_type_name() == "Constant")
            weight_bytes = sum(each.get_byte_size() for each in constants)
            self._most_sizes = min(MOST_SIZES, MOST_WEIGHT_BYTES // max(1, weight_bytes))

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own."""
        arrays = {spec.name: np.require(inputs[spec.name], requirements=("C", "W")) for spec in self._inputs}
        if self._has_bags and any(array.dtype.kind == "i" and (array < 0).any() for array in arrays.values()):
            self._do_without_bags()
        found = self._request(len(arrays[self._inputs[0].name])).compute(arrays)
        return dict(zip(self._outputs, found, strict=True))

    def _do_without_bags(self) -> None:
        """Compile the file as it is: a bag does not count indices below 0 from the end, as ONNX does."""
        self._model, self._has_bags = self._core.read_model(self._file), False
        self._sizes.clear()
        self._open = _Request(self._compile(self._model))

    def _request(self, rows: int) -> _Request:
        """Return the model of this number of rows, made now where it has room and is one that the warm-up runs."""
        if rows in self._sizes:
            return self._sizes[rows]
        is_usual = rows.bit_count() == 1 or rows > max(self._sizes, default=0)
        if len(self._sizes) >= self._most_sizes or not is_usual:
            return self._open
        model = self._model.clone()
        model.reshape({spec.name: openvino.PartialShape([rows, *spec.shape[1:]]) for spec in self._inputs})
        self._sizes[rows] = _Request(self._compile(model))
        return self._sizes[rows]

    def _compile(self, model: openvino.Model) -> openvino.CompiledModel:
        found: dict[str, object] = {"INFERENCE_PRECISION_HINT": self._settings.computes_in}
        if self._settings.device == "CPU":
            # pinned, the threads of every worker would have the same cores
            found |= {"INFERENCE_NUM_THREADS": self._settings.threads, "ENABLE_CPU_PINNING": False, "NUM_STREAMS": 1}
        return self._core.compile_model(model, self._settings.device, found)


def with_embedding_bags(model: openvino.Model) -> tuple[openvino.Model, bool]:
    """Return a model whose sums of a table's rows are one operator each, and whether there are some.

    The sums are the same to the last bit.

    ONNX has no such operator: a file holds the transpose of the indices, the rows that they name, and the sum of these.
    """
    from openvino import opset15

    count = 0
    for total in model.get_ordered_ops():
        if total.get_type_name() != "ReduceSum" or total.get_attributes()["keep_dims"]:
            continue
        gather = total.input_value(0).get_node()
        if gather.get_type_name() != "Gather" or gather.get_attributes()["batch_dims"]:
            continue
        indices = gather.input_value(1).get_node()
        is_swap = indices.get_type_name() == "Transpose" and _constant(indices, 1) == [1, 0]
        if is_swap and _is_given(indices) and _constant(gather, 2) == _constant(total, 1) == [0]:
            bags = opset15.embedding_bag_packed(gather.input_value(0), indices.input_value(0))
            total.output(0).replace(bags.output(0))
            count += 1
    model.validate_nodes_and_infer_types()
    return model, count > 0


def _is_given(node: openvino.Node) -> bool:
    """Return whether a node has integers of an input of the model, and no others."""
    while node.get_type_name() in _CHOOSING:
        node = node.input_value(0).get_node()
    return bool(node.get_type_name() == "Parameter" and node.get_element_type().is_integral())


def _constant(node: openvino.Node, position: int) -> list[int] | None:
    """Return an input of a node as a list; None if it is no constant."""
    source = node.input_value(position).get_node()
    return np.ravel(source.get_data()).tolist() if source.get_type_name() == "Constant" else None
