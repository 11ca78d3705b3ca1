"""Files in a lower precision: right, really lower, and of the types that runtimes take."""

from collections import Counter

import numpy as np
import pytest

from mlbench import Dim, Precision, TensorSpec, UsageError
from mlbench.conformance.known_answers import reference_graphs
from mlbench.conformance.known_state import stepping_graph
from mlbench.execution.export.onnx_export import export_onnx
from mlbench.toolkit import ModuleGraph
from mlbench.toolkit.onnx_lowering import lower_onnx

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")
pytest.importorskip("torch")

KINDS = {Precision.FP16: onnx.TensorProto.FLOAT16, Precision.BF16: onnx.TensorProto.BFLOAT16}
GRAPHS = [known.graph.name for known in reference_graphs()]


def known(name):
    return next(known for known in reference_graphs() if known.graph.name == name)


def computed_in(model):
    """Return the element type of each weight of a matrix product or convolution."""
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    return {kinds[name] for node in nodes for name in node.input if name in kinds}


@pytest.mark.slow
@pytest.mark.parametrize("precision", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_lowered_file_is_valid_close_to_the_module_and_returns_what_the_specs_say(name, precision):
    graph = known(name).graph
    file = lower_onnx(graph, precision)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert computed_in(model) == {KINDS[precision]}
    inputs = known(name).inputs(known(name).sizes[2], seed=1)
    expected, tolerance = known(name).compute_outputs(inputs), graph.tolerance(precision)
    found = dict(zip(expected, reference.ReferenceEvaluator(model).run(list(expected), dict(inputs)), strict=True))
    for spec in graph.outputs:
        assert found[spec.name].dtype == spec.dtype
        np.testing.assert_allclose(
            found[spec.name], expected[spec.name], atol=tolerance.absolute, rtol=tolerance.relative
        )
        assert np.abs(found[spec.name] - expected[spec.name]).max() > 1e-4


class Notes(ModuleGraph):
    """A file of three operators: a product, its softmax, and a scatter of that into the state."""

    def __init__(self, file):
        rows, slots = (Dim(name=name, smallest=1, usual=2, largest=8) for name in ("rows", "slots"))
        super().__init__(
            "notes",
            inputs=(
                TensorSpec(name="x", shape=(rows, 3), dtype="float32"),
                TensorSpec(name="places", shape=(rows, 1), dtype="int64"),
            ),
            outputs=(TensorSpec(name="shares", shape=(rows, 3), dtype="float32"),),
            state=(TensorSpec(name="notes", shape=(slots, 3), dtype="float32"),),
            build=None,
            fingerprint="notes",
        )
        self._file = file

    def onnx(self):
        return self._file


@pytest.fixture
def lowered_notes(tmp_path, monkeypatch):
    """Return the lowered model by its operators' kinds, and the type of each tensor."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    shapes = {"x": ["rows", 3], "notes": ["slots", 3], "shares": ["rows", 3], "notes.next": ["slots", 3]}
    info = {name: helper.make_tensor_value_info(name, floats, shape) for name, shape in shapes.items()}
    places = helper.make_tensor_value_info("places", onnx.TensorProto.INT64, ["rows", 1])
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Softmax", ["product"], ["shares"]),
        helper.make_node("ScatterND", ["notes", "places", "shares"], ["notes.next"]),
    ]
    weight = onnx.numpy_helper.from_array(np.array([[1, 0, 7e4], [0, -7e4, 0], [0, 0, 1]], np.float32), "weight")
    inputs, outputs = [info["x"], places, info["notes"]], [info["shares"], info["notes.next"]]
    graph = helper.make_graph(nodes, "notes", inputs, outputs, [weight])
    file = tmp_path / "notes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), file)
    model = onnx.shape_inference.infer_shapes(onnx.load(lower_onnx(Notes(file), Precision.FP16)))
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    kinds = {value.name: value.type.tensor_type.elem_type for value in values}
    return model, {node.op_type: node for node in model.graph.node}, kinds


def test_what_needs_range_or_digits_is_computed_in_fp32(lowered_notes):
    _, nodes, kinds = lowered_notes
    assert kinds[nodes["MatMul"].output[0]] == onnx.TensorProto.FLOAT16
    assert kinds[nodes["Softmax"].input[0]] == kinds["shares"] == onnx.TensorProto.FLOAT


def test_state_is_written_to_without_a_cast_of_all_of_it(lowered_notes):
    _, nodes, kinds = lowered_notes
    assert list(nodes["ScatterND"].input)[:2] == ["notes", "places"]
    assert list(nodes["ScatterND"].output) == ["notes.next"]
    assert kinds["notes"] == kinds["notes.next"] == onnx.TensorProto.FLOAT16


def test_a_weight_beyond_the_range_becomes_its_end_and_not_infinite(lowered_notes):
    model, nodes, _ = lowered_notes
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == nodes["MatMul"].input[1])
    values = onnx.numpy_helper.to_array(weight)
    assert (values.min(), values.max()) == (-65504, 65504)


@pytest.mark.thorough("exports")  # the state above is kept so too, in a file that nobody has to export
@pytest.mark.parametrize("precision", KINDS)
def test_state_is_kept_in_the_lower_precision_from_call_to_call(precision):
    model = onnx.load(lower_onnx(stepping_graph(), precision))
    onnx.checker.check_model(model, full_check=True)
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    for spec in stepping_graph().state:
        assert kinds[spec.name] == kinds[f"{spec.name}.next"] == KINDS[precision]
    for spec in stepping_graph().outputs:
        assert kinds[spec.name] == onnx.TensorProto.FLOAT


@pytest.mark.slow
def test_the_exported_file_stays_as_it_was():
    graph = known("image").graph
    before = export_onnx(graph).read_bytes()
    lower_onnx(graph, Precision.FP16)
    assert export_onnx(graph).read_bytes() == before
    assert Counter(node.op_type for node in onnx.load(export_onnx(graph)).graph.node)["Cast"] == 0


def test_a_precision_that_is_not_lower_is_refused():
    with pytest.raises(UsageError, match="cannot be lowered to int8"):
        lower_onnx(known("image").graph, Precision.INT8)
