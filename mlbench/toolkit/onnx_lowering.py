"""A graph's ONNX file in fp16 or bf16: the types are in the file, so that no runtime has to choose them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.graph import NEXT, Graph
from mlbench.contracts.precision import Precision
from mlbench.errors import GraphError, UsageError
from mlbench.execution.export.compile_cache import build_once
from mlbench.toolkit.onnx_fingerprint import onnx_identity
from mlbench.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

LOWERED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators computed in the lower precision: the expensive ones, as in torch's autocast."""

FOLLOWING = frozenset(
    """
    Add AveragePool Clip Concat DepthToSpace Expand Flatten Gather GlobalAveragePool Identity LeakyRelu Max MaxPool Min
    Mul Neg Pad Relu Reshape ScatterND Shape Slice SpaceToDepth Split Squeeze Sub Tile Transpose Unsqueeze Where
    """.split()
)
"""Operators that stay in the lower precision if all their inputs are in it. Every other operator computes in fp32."""

OPSET = 22
"""The first in which convolutions take bf16. From 18 on, the operators that the exporter writes only gained types."""

logger = logging.getLogger(__name__)


def lower_onnx(graph: Graph, precision: Precision) -> Path:
    """Return the path of the graph's ONNX file in fp16 or bf16, made once and kept in the cache.

    Matrix products and convolutions are computed in it, and what needs range or digits (softmax, norms, sums) in fp32.
    Inputs and outputs keep their types, but `Graph.state` is in the lower precision unless it keeps
    its types.

    Raises:
        GraphError: the file has control flow.
        UsageError: the precision is another one.
    """
    import onnx

    kinds = {Precision.FP16: onnx.TensorProto.FLOAT16, Precision.BF16: onnx.TensorProto.BFLOAT16}
    if precision not in kinds:
        raise UsageError(f"an ONNX file cannot be lowered to {precision}.", hint=f"Choose from {', '.join(kinds)}.")
    exported, name = graph.onnx(), f"{graph.name}.{precision}.onnx"

    def fill(folder: Path) -> None:
        logger.info("lowering %s to %s", graph.name, precision)
        described = onnx.shape_inference.infer_shapes(onnx.load(exported, load_external_data=False))
        model = onnx.load(exported)
        is_large = any(map(onnx.external_data_helper.uses_external_data, described.graph.initializer))
        state = () if graph.state_keeps_types else {spec.name for spec in graph.state}
        _Lowering(model, kinds[precision], _types(described), state).apply()
        onnx.save(model, folder / name, save_as_external_data=is_large, location=f"{name}.data")

    made_from = [onnx_identity(graph, exported), str(precision), onnx.__version__, __version__]
    return build_once("lowered", made_from, fill) / name


def _types(model: ModelProto) -> Mapping[str, int]:
    """Return the element type of every tensor, by name."""
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    return {value.name: value.type.tensor_type.elem_type for value in values}


class _Lowering:
    """Rewrites a model, node by node in their order; casts are written where a tensor's type is not the one wanted."""

    def __init__(
        self, model: ModelProto, kind: TensorProto.DataType, types: Mapping[str, int], state: Collection[str]
    ) -> None:
        from onnx import TensorProto

        self._model = model
        self._graph = model.graph
        self._kind = kind
        self._float = TensorProto.FLOAT
        self._types = types
        self._weights = {each.name: each for each in model.graph.initializer if each.data_type == self._float}
        self._outputs = {value.name for value in model.graph.output}
        self._state = {*state, *(name + NEXT for name in state)}
        self._low = set(state)
        self._casts: dict[tuple[str, bool], str] = {}
        self._nodes: list[NodeProto] = []

    def apply(self) -> None:
        """Change the model."""
        nodes = list(self._graph.node)
        del self._graph.node[:]
        for node in nodes:
            self._take(node)
        self._graph.node.extend(self._nodes)
        for value in (*self._graph.input, *self._graph.output):
            if value.name in self._state and value.type.tensor_type.elem_type == self._float:
                value.type.tensor_type.elem_type = self._kind
        used = {name for node in self._nodes for name in node.input} | self._outputs
        for tensor in [each for each in self._graph.initializer if each.name not in used]:
            self._graph.initializer.remove(tensor)
        del self._graph.value_info[:]
        for opset in self._model.opset_import:
            if opset.domain in ("", "ai.onnx"):
                opset.version = max(opset.version, OPSET)

    def _take(self, node: NodeProto) -> None:
        """Write a node in the precision that is due to it, behind the casts it needs."""
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise GraphError(f"the operator {node.op_type} contains a graph, and cannot be lowered.", hint="Use fp32.")
        is_low = self._is_due_low(node)
        for place, name in enumerate(node.input):
            if self._is_float(name):
                node.input[place] = self._in_kind(name, is_low)
        self._nodes.append(node)
        for place, name in enumerate(node.output):
            if self._is_float(name):
                self._note_output(node, place, name, is_low)

    def _is_due_low(self, node: NodeProto) -> bool:
        if node.op_type in LOWERED:
            return True
        read = [name for name in node.input if self._is_float(name) and name not in self._weights]
        if node.op_type == "ScatterND":  # a copy of its first input, which may be large state
            read = read[:1]
        return node.op_type in FOLLOWING and bool(read) and self._low.issuperset(read)

    def _note_output(self, node: NodeProto, place: int, name: str, is_low: bool) -> None:
        """Remember what a node returns in which precision; outputs of the model are cast to the type they had."""
        wants_low = name in self._state if name in self._outputs else is_low
        if wants_low:
            self._low.add(name)
        if wants_low != is_low:
            node.output[place] = f"{name}_computed"
            self._cast(node.output[place], name, to_low=wants_low)

    def _in_kind(self, name: str, wants_low: bool) -> str:
        """Return the name of a tensor's values in the lower precision or in fp32."""
        if (name in self._low) == wants_low:
            return name
        if (name, wants_low) not in self._casts:
            made = f"{name}_{'low' if wants_low else 'fp32'}"
            if name in self._weights:
                self._graph.initializer.append(self._lower_weight(self._weights[name], made))
            else:
                self._cast(name, made, to_low=wants_low)
            self._casts[name, wants_low] = made
        return self._casts[name, wants_low]

    def _cast(self, name: str, made: str, *, to_low: bool) -> None:
        from onnx import helper

        kind = self._kind if to_low else self._float
        self._nodes.append(helper.make_node("Cast", [name], [made], name=f"{made}_cast", to=kind))

    def _lower_weight(self, weight: TensorProto, name: str) -> TensorProto:
        """Return a weight rounded; out-of-range values are clamped, since infinities lead to NaN."""
        import torch
        from onnx import TensorProto, helper, numpy_helper

        dtype = torch.float16 if self._kind == TensorProto.FLOAT16 else torch.bfloat16
        values = torch.from_numpy(numpy_helper.to_array(weight).copy())
        most = torch.finfo(dtype).max
        rounded = values.clamp(-most, most).to(dtype).view(torch.int16).numpy()
        return helper.make_tensor(name, self._kind, weight.dims, rounded.tobytes(), raw=True)

    def _is_float(self, name: str) -> bool:
        return name in self._weights or self._types.get(name) == self._float
