"""What looking for patterns in a graph needs, and putting nodes in the place of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

DOMAIN = "com.microsoft"
"""ONNX Runtime's own operators."""

LARGE = 1024
"""Bytes; no tensor of more decides a shape."""


def infer_shapes(model: ModelProto) -> Mapping[str, Sequence[int]]:
    """Return the shapes of a model's tensors as far as they are known, by name; a size of 0 is unknown."""
    small, inputs = [], list(model.graph.input)
    for tensor in model.graph.initializer:
        if is_outside(tensor) or tensor.ByteSize() > LARGE:  # weights are gigabytes, and would be copied
            inputs.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            small.append(tensor)
    light = helper.make_graph(model.graph.node, "shapes", inputs, model.graph.output, small)
    described = helper.make_model(light, opset_imports=model.opset_import)
    try:
        inferred = onnx.shape_inference.infer_shapes(described).graph
    except onnx.shape_inference.InferenceError:
        return {}
    values = (*inferred.input, *inferred.output, *inferred.value_info)
    return {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in values}


def is_outside(tensor: TensorProto) -> bool:
    """Return whether a tensor's values lie in another file."""
    return bool(onnx.external_data_helper.uses_external_data(tensor))


def replace_nodes(model: ModelProto, nodes: Sequence[NodeProto]) -> None:
    """Replace a model's nodes, removing those whose results are unused."""
    used = {value.name for value in model.graph.output}
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if not used.isdisjoint(node.output):
            kept.append(node)
            used.update(node.input)
    del model.graph.node[:]
    model.graph.node.extend(reversed(kept))


def import_domain(model: ModelProto) -> None:
    """Let a model have operators of ONNX Runtime's own; a quantised one may have them already."""
    if all(opset.domain != DOMAIN for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))


def sources(*names: str) -> list[str]:
    """Return the texts of modules of this plugin, and of this one: what is made by them is kept under them."""
    return [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in (*names, "nodes.py")]
