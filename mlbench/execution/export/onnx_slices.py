"""A slice of a slice as one slice: runtimes copy what a slice returns, and the exporter slices one axis at a time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

_PARTS = range(1, 5)
"""The inputs starts, ends, axes and steps of a Slice; the exporter writes all."""
_AXES = 3


def merge_slices(graph: GraphProto) -> None:
    """Merge each Slice into its producer if that is a Slice of other axes without other readers; changes the graph."""
    from onnx import TensorProto, helper

    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(value.name for value in graph.output)
    constants = _constant_integers(graph)
    slices: dict[str, NodeProto] = {}
    nodes: list[NodeProto] = []
    for node in graph.node:
        made = node
        inner = slices.get(node.input[0]) if node.op_type == "Slice" else None
        if inner and readers[inner.output[0]] == 1 and _cut_different_axes(inner, node, constants):
            parts = [f"{node.output[0]}_merged_{part}" for part in _PARTS]
            for part, name in zip(_PARTS, parts, strict=True):
                sources = [inner.input[part], node.input[part]]
                if constants.keys() >= set(sources):  # some runtimes need constant axes
                    constants[name] = [number for source in sources for number in constants[source]]
                    graph.initializer.append(
                        helper.make_tensor(name, TensorProto.INT64, [len(constants[name])], constants[name])
                    )
                else:
                    nodes.append(helper.make_node("Concat", sources, [name], axis=0))
            made = helper.make_node("Slice", [inner.input[0], *parts], node.output, name=node.name)
            nodes.remove(inner)
        if made.op_type == "Slice":
            slices[made.output[0]] = made
        nodes.append(made)
    del graph.node[:]
    graph.node.extend(nodes)


def _cut_different_axes(inner: NodeProto, outer: NodeProto, constants: dict[str, list[int]]) -> bool:
    """Return whether two slices are known to cut different axes; a negative one counts from an end that is unknown."""
    if not all(len(node.input) > max(_PARTS) and all(node.input) for node in (inner, outer)):
        return False
    one, other = (set(constants.get(node.input[_AXES], [-1])) for node in (inner, outer))
    return not one & other and min(one | other) >= 0


def _constant_integers(graph: GraphProto) -> dict[str, list[int]]:
    """Return the elements of the small integer tensors that the graph holds, by name."""
    from onnx import TensorProto, numpy_helper

    return {
        tensor.name: numpy_helper.to_array(tensor).tolist()
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.INT64 and len(tensor.dims) == 1 and tensor.dims[0] <= 8
    }
