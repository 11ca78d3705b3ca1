import numpy as np
import pytest

from mlbench.execution.export.onnx_slices import merge_slices

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")

CONSTANTS = {"axis0": [0], "axis1": [1], "axis2": [2], "last": [-1], "zero": [0], "one": [1], "two": [2], "five": [5]}


def cut(source, target, end, axis, *, start="zero", step="one"):
    """Return what cuts one axis of a tensor; ``rows`` is an end that is known only when the graph runs."""
    return onnx.helper.make_node("Slice", [source, start, end, axis, step], [target])


def graph_of(*nodes, outputs=("y",)):
    info = onnx.helper.make_tensor_value_info
    integers = [onnx.numpy_helper.from_array(np.array(value), name) for name, value in CONSTANTS.items()]
    inputs = [info("x", onnx.TensorProto.FLOAT, [None] * 3), info("rows", onnx.TensorProto.INT64, [1])]
    made = [info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
    return onnx.helper.make_graph(list(nodes), "slices", inputs, made, integers)


def results(graph):
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    x = np.arange(6 * 7 * 8, dtype=np.float32).reshape(6, 7, 8)
    return reference.ReferenceEvaluator(model).run(None, {"x": x, "rows": np.array([3])})


def kinds(graph):
    return [node.op_type for node in graph.node]


def merged(*nodes, **settings):
    """Merge the slices of a graph, whose results must stay what they were; return the kinds of its operators."""
    graph = graph_of(*nodes, **settings)
    before = results(graph)
    merge_slices(graph)
    for one, other in zip(results(graph), before, strict=True):
        np.testing.assert_array_equal(one, other)
    return kinds(graph)


def test_cuts_of_different_axes_become_one():
    assert merged(cut("x", "a", "rows", "axis0"), cut("a", "y", "five", "axis2", start="one", step="two")) == [
        "Concat",
        "Slice",
    ]


def test_what_is_known_beforehand_stays_so():
    graph = graph_of(cut("x", "a", "rows", "axis0"), cut("a", "y", "five", "axis2", start="one", step="two"))
    merge_slices(graph)
    made = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in graph.initializer}
    (node,) = (node for node in graph.node if node.op_type == "Slice")
    assert [made.get(name) for name in node.input[1:]] == [[0, 1], None, [0, 2], [1, 2]]


def test_a_chain_of_three_becomes_one():
    nodes = [cut("x", "a", "rows", "axis0"), cut("a", "b", "five", "axis1"), cut("b", "y", "two", "axis2")]
    assert merged(*nodes).count("Slice") == 1


def test_a_third_cut_of_an_axis_that_was_cut_stays():
    nodes = [
        cut("x", "a", "five", "axis0"),
        cut("a", "b", "five", "axis1"),
        cut("b", "y", "rows", "axis0", start="one"),
    ]
    assert merged(*nodes).count("Slice") == 2


@pytest.mark.parametrize("axis", ["axis0", "last"])
def test_cuts_of_what_may_be_the_same_axis_stay_apart(axis):
    assert merged(cut("x", "a", "five", "axis0", start="one"), cut("a", "y", "rows", axis)) == ["Slice", "Slice"]


def test_a_cut_that_others_read_stays():
    first = cut("x", "a", "rows", "axis0")
    assert merged(first, cut("a", "y", "two", "axis1"), cut("a", "z", "five", "axis1"), outputs=("y", "z")) == [
        "Slice",
        "Slice",
        "Slice",
    ]
    assert merged(first, cut("a", "y", "two", "axis1"), outputs=("y", "a")) == ["Slice", "Slice"]


def test_a_slice_without_axes_or_steps_stays():
    bare = onnx.helper.make_node("Slice", ["a", "zero", "rows"], ["y"])
    assert merged(cut("x", "a", "five", "axis1"), bare) == ["Slice", "Slice"]
