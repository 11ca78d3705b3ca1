"""Operators of ONNX Runtime in place of what the exporter writes for them, in an order that ONNX Runtime does not know.

Attention without a mask, GELU, and scale and bias after a group norm. Each operator less is a pass less over a tensor.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mlbench_onnxruntime.nodes import DOMAIN, import_domain, infer_shapes, is_outside, replace_nodes

REARRANGING = frozenset({"Mul", "Reshape", "Transpose"})
"""What lies between a projection and the products of attention."""

SHAPING = frozenset({"Cast", "Concat", "Gather", "Shape", "Slice", "Squeeze", "Unsqueeze"})
"""What shapes are computed with."""

ROWS = 2
"""How many rows a tensor has on which a rearrangement is tried out; in the graph their number varies."""


class _OtherwiseError(Exception):
    """The operators do not match the pattern."""


def fuse_operators(model: ModelProto) -> int:
    """Fuse operators of a model, which becomes one for ONNX Runtime on a CPU, and return how many patterns were found.

    Weights beside the file are not read.
    """
    patterns = _Patterns(model)
    fused: dict[str, NodeProto] = {}
    for node in model.graph.node:
        find = {"MatMul": patterns.attention, "Mul": patterns.gelu, "Add": patterns.scaled_norm}.get(node.op_type)
        if find is not None and (found := find(node)):
            fused[found.output[0]] = found
    if fused:
        nodes = [fused.get(node.output[0], node) for node in model.graph.node]
        replace_nodes(model, nodes)
        import_domain(model)
    return len(fused)


class _Patterns:
    """Finds patterns in a model by the node that they end in, and returns the operator that replaces that node."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        graph = model.graph
        self._makers = {name: node for node in graph.node for name in node.output}
        self._reader = {name: node for node in graph.node for name in node.input}
        self._readers = Counter(name for node in graph.node for name in node.input)
        self._readers.update(value.name for value in graph.output)
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        self._shapes = infer_shapes(model)

    def attention(self, node: NodeProto) -> NodeProto | None:
        """Return ``MultiHeadAttention`` for the product of probabilities and values."""
        try:
            softmax = self._maker(node.input[0], "Softmax")
            products = self._maker(softmax.input[0], "MatMul")
            parts = map(self._rearranged, (*products.input, node.input[1]))  # query, keys, values
            sources, tried, found = zip(*parts, strict=True)
            heads, end = found[0].shape[1], self._merged(node.output[0])
            query, keys, values = (_split_heads(array, heads) for array in tried)
            factors = _factor(found[0], query), _factor(found[1], keys.swapaxes(2, 3))
            merges = self._computed(node.output[0], query, end)
        except (_OtherwiseError, KeyError, IndexError):
            return None
        told = {each.name: helper.get_attribute_value(each) for each in softmax.attribute}
        if told.get("axis", -1) not in (-1, 3):
            return None
        if not all(factors) or _factor(found[2], values) != 1 or _factor(merges, tried[0]) != 1:
            return None
        return helper.make_node(
            "MultiHeadAttention",
            sources,
            [end],
            name=f"{end}_fused",
            domain=DOMAIN,
            num_heads=heads,
            scale=math.prod(factors),
        )

    def gelu(self, node: NodeProto) -> NodeProto | None:
        """Return ``Gelu`` for the product of x and half of 1 + erf(x / sqrt 2)."""
        for whole, half in (node.input, reversed(node.input)):
            try:
                total = self._with_constant(half, "Mul", 0.5)
                erf = self._maker(self._with_constant(total, "Add", 1.0), "Erf")
                if self._with_constant(erf.input[0], "Div", math.sqrt(2)) == whole:
                    return helper.make_node("Gelu", [whole], node.output, name=f"{node.name}_fused", domain=DOMAIN)
            except _OtherwiseError:
                continue
        return None

    def scaled_norm(self, node: NodeProto) -> NodeProto | None:
        """Return a ``BatchNormalization`` that scales, for scale and bias of each channel after a group norm."""
        try:
            scaled = self._maker(node.input[0], "Mul")
            self._maker(self._maker(scaled.input[0], "Reshape").input[0], "InstanceNormalization")
        except _OtherwiseError:
            return None
        scale, bias = scaled.input[1], node.input[1]
        channels, *rest = self._weights[scale].dims if scale in self._weights else [0]
        is_even = rest == [1, 1] and bias in self._weights and self._weights[bias].dims == [channels, *rest]
        if not is_even or len(self._shapes.get(node.output[0], ())) != 4:
            return None
        made = node.output[0]
        for name, value in ((f"{made}_zeros", 0), (f"{made}_ones", 1)):
            self._model.graph.initializer.append(numpy_helper.from_array(np.full(channels, value, np.float32), name))
        for name in (scale, bias):
            flat = self._model.graph.initializer.add()
            flat.CopyFrom(self._weights[name])
            flat.name = f"{made}_{name}"
            flat.dims[:] = [channels]
        return helper.make_node(
            "BatchNormalization",
            [scaled.input[0], f"{made}_{scale}", f"{made}_{bias}", f"{made}_zeros", f"{made}_ones"],
            [made],
            name=f"{made}_fused",
            epsilon=0.0,
        )

    def _maker(self, name: str, kind: str) -> NodeProto:
        """Return the node of a kind that makes a tensor for one reader."""
        node = self._makers.get(name)
        if node is None or node.op_type != kind or self._readers[name] != 1:
            raise _OtherwiseError
        return node

    def _with_constant(self, name: str, kind: str, constant: float) -> str:
        """Return the input of a node whose other input is this constant."""
        node = self._maker(name, kind)
        for given, other in (node.input, reversed(node.input)):
            tensor = self._weights.get(other)
            if tensor is None or math.prod(tensor.dims) != 1 or is_outside(tensor):
                continue
            if np.isclose(numpy_helper.to_array(tensor).item(), constant, rtol=1e-6):
                return str(given)
        raise _OtherwiseError

    def _rearranged(self, name: str) -> tuple[str, np.ndarray, np.ndarray]:
        """Return the tensor (rows, length, width) that another is rearranged from, and both as they may be."""
        source = name
        while source in self._makers and self._makers[source].op_type in REARRANGING:
            source = self._makers[source].input[0]
        shape = self._shapes[source]
        if len(shape) != 3 or not all(shape[1:]):
            raise _OtherwiseError
        tried = np.random.default_rng(0).standard_normal((ROWS, *shape[1:]), dtype=np.float32)
        return source, tried, self._computed(source, tried, name)

    def _merged(self, name: str) -> str:
        """Return what becomes of the output of attention: transposed and reshaped."""
        for kind in ("Transpose", "Reshape"):
            if self._readers[name] != 1 or self._reader[name].op_type != kind:
                raise _OtherwiseError
            name = self._reader[name].output[0]
        return name

    def _computed(self, start: str, value: np.ndarray, end: str) -> np.ndarray:
        """Return what a tensor becomes, for one value of another."""
        nodes: dict[int, NodeProto] = {}
        left, constants = [end], {}
        while left:
            name = left.pop()
            if name == start or not name:
                continue
            if name in self._weights and not is_outside(self._weights[name]):
                constants[name] = self._weights[name]
                continue
            node = self._makers.get(name)
            if node is None or node.op_type not in REARRANGING | SHAPING:
                raise _OtherwiseError  # it depends on another tensor
            nodes[id(node)] = node
            left += node.input
        ordered = [node for node in self._model.graph.node if id(node) in nodes]
        graph = helper.make_graph(
            ordered,
            "part",
            [helper.make_tensor_value_info(start, onnx.TensorProto.FLOAT, None)],
            [helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, None)],
            list(constants.values()),
        )
        part = helper.make_model(graph, opset_imports=self._model.opset_import)
        try:
            (found,) = ReferenceEvaluator(part).run(None, {start: value})
        except Exception as error:  # it raises anything, as for a shape that holds for one number of rows only
            raise _OtherwiseError from error
        return np.asarray(found)


def _split_heads(array: np.ndarray, heads: int) -> np.ndarray:
    """Return (rows, length, width) as (rows, heads, length, size)."""
    rows, length, width = array.shape
    if width % heads:
        raise _OtherwiseError
    return array.reshape(rows, length, heads, width // heads).swapaxes(1, 2)


def _factor(found: np.ndarray, expected: np.ndarray) -> float:
    """Return what one array is of another; 0 if it is no multiple."""
    if found.shape != expected.shape:
        return 0.0
    factor = float(found.flat[0] / expected.flat[0])
    rounded = round(factor, 6) if math.isclose(factor, round(factor, 6), rel_tol=1e-6) else factor
    return rounded if np.allclose(found, rounded * expected, rtol=1e-5, atol=0) else 0.0
