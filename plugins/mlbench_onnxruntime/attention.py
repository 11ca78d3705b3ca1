"""Attention over a cache as one operator of ONNX Runtime, which reads keys and values in place.

The ONNX standard of the exported files has no such operator: there, a part of the cache is cut out, which copies it,
and each row pays for the longest.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mlbench import DECODE, NEXT, Graph
from mlbench.toolkit import build_once, onnx_identity
from mlbench_onnxruntime.nodes import DOMAIN, import_domain, replace_nodes, sources

ROWS = "rows"
"""The name of the dimension of tokens there."""


def with_fused_attention(file: Path, graph: Graph) -> Path:
    """Return a decode graph's file with its attention fused, kept in the cache; any other file as it is.

    That a row's cache holds its tokens up to its position, each in its column, is guaranteed by the contract; that a
    layer attends only to those is checked on its operators. The new file takes no more rows of the state than tokens.
    """
    if graph.name != DECODE:
        return file
    model = onnx.load(file, load_external_data=False)
    is_large = any(map(onnx.external_data_helper.uses_external_data, model.graph.initializer))
    if not fuse_attention(model, {spec.name for spec in graph.state}):
        return file

    def fill(folder: Path) -> None:
        onnx.external_data_helper.load_external_data_for_model(model, os.fspath(file.parent))
        onnx.save(model, folder / file.name, save_as_external_data=is_large, location=f"{file.name}.data")

    return build_once("fused_attention", [onnx_identity(graph, file), sources("attention.py")], fill) / file.name


@dataclass(frozen=True, slots=True)
class _Attention:
    """A layer's attention in operators of the standard."""

    query: str
    """(rows, key heads, queries that share one, head size)."""
    keys: NodeProto
    """The ScatterND that writes new keys, (rows, key heads, 1, head size), into the state."""
    values: NodeProto
    output: NodeProto
    """The product of probabilities and values; of the query's shape."""
    scale: float
    """Scale of the products of queries and keys."""


class _OtherwiseError(Exception):
    """The operators do not match the pattern."""


def fuse_attention(model: ModelProto, state: Collection[str]) -> bool:
    """Replace attention by ``GroupQueryAttention`` where all of the state is keys and values; tell whether it was."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    numbers = {tensor.name: numpy_helper.to_array(tensor).item() for tensor in graph.initializer if _is_number(tensor)}
    layers = [found for node in graph.node if (found := _attention(node, makers, numbers))]
    if {node.input[0] for layer in layers for node in (layer.keys, layer.values)} != set(state):
        return False
    described = onnx.shape_inference.infer_shapes(model).graph.value_info
    shapes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in described}
    if not all(all(shapes.get(layer.query, [0, 0])[1:]) for layer in layers):
        return False  # a size is unknown
    nodes = [
        helper.make_node("Cast", ["positions"], ["fused_past"], to=TensorProto.INT32),
        helper.make_node("Size", ["columns"], ["fused_size"]),
        helper.make_node("Cast", ["fused_size"], ["fused_span"], to=TensorProto.INT32),
    ]
    fused = {layer.output.output[0]: _fuse_layer(graph, layer, shapes[layer.query]) for layer in layers}
    written = {name + NEXT for name in state}
    for node in graph.node:
        if node.output[0] not in written:
            nodes += fused.get(node.output[0], [node])
    replace_nodes(model, nodes)
    for value in (*graph.input, *graph.output):
        if value.name in state or value.name in written:
            value.type.tensor_type.shape.dim[0].dim_param = ROWS
    import_domain(model)
    return True


def _is_number(tensor: TensorProto) -> bool:
    return math.prod(tensor.dims) == 1 and not onnx.external_data_helper.uses_external_data(tensor)


def _attention(output: NodeProto, makers: Mapping[str, NodeProto], numbers: Mapping[str, float]) -> _Attention | None:
    """Return the attention that ends in this node, if it does."""

    def maker(name: str, kind: str) -> NodeProto:
        """Return what made a tensor, but for its shape."""
        found = makers.get(name)
        if found is not None and found.op_type == "Reshape" != kind:
            return maker(found.input[0], kind)
        if found is None or found.op_type != kind:
            raise _OtherwiseError
        return found

    if output.op_type != "MatMul":
        return None
    try:
        values = maker(maker(output.input[1], "Slice").input[0], "ScatterND")
        masked = maker(maker(output.input[0], "Softmax").input[0], "Add")
        is_later = maker(maker(masked.input[1], "Where").input[0], "Greater")
        products, scale = makers[masked.input[0]], 1.0
        if products.op_type == "Div":  # as in GPT-J; others scale the query
            products, scale = makers[products.input[0]], 1 / numbers[products.input[1]]
        products = maker(products.output[0], "MatMul")
        keys = maker(maker(maker(products.input[1], "Transpose").input[0], "Slice").input[0], "ScatterND")
        seen = [_source(name, makers) for name in is_later.input]
    except (_OtherwiseError, KeyError):
        return None
    return _Attention(products.input[0], keys, values, output, scale) if seen == ["columns", "positions"] else None


def _source(name: str, makers: Mapping[str, NodeProto]) -> str:
    """Return what a tensor was before axes of size one were added."""
    while name in makers and makers[name].op_type == "Unsqueeze":
        name = makers[name].input[0]
    return name


def _fuse_layer(graph: GraphProto, layer: _Attention, shape: Sequence[int]) -> list[NodeProto]:
    """Return the operator and what brings tensors into its shapes: (rows, 1, heads x head size)."""
    _, key_heads, shared, size = shape
    keys, values = layer.keys, layer.values
    made = layer.output.output[0]
    shapes = {
        "flat_query": [0, 1, key_heads * shared * size],
        "flat_keys": [0, 1, key_heads * size],
        "flat_values": [0, 1, key_heads * size],
        "flat_output": [0, key_heads, shared, size],
    }
    name = {part: f"{made}_{part}" for part in shapes}
    for part, sizes in shapes.items():
        graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), f"{name[part]}_shape"))

    def reshape(source: str, part: str, target: str) -> NodeProto:
        return helper.make_node("Reshape", [source, f"{name[part]}_shape"], [target])

    return [
        reshape(layer.query, "flat_query", name["flat_query"]),
        reshape(keys.input[2], "flat_keys", name["flat_keys"]),
        reshape(values.input[2], "flat_values", name["flat_values"]),
        helper.make_node(
            "GroupQueryAttention",
            [
                *(name[part] for part in ("flat_query", "flat_keys", "flat_values")),
                *(keys.input[0], values.input[0], "fused_past", "fused_span"),
            ],
            [name["flat_output"], keys.output[0], values.output[0]],
            name=f"{made}_fused",
            domain=DOMAIN,
            num_heads=key_heads * shared,
            kv_num_heads=key_heads,
            scale=layer.scale,
        ),
        reshape(name["flat_output"], "flat_output", made),
    ]
