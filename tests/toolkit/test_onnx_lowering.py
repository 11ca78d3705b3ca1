"""Files in a lower precision: right, really lower, and of the types that runtimes take."""

from collections import Counter

import numpy as np
import pytest

from mlbench import Precision, UsageError
from mlbench.conformance.known_answers import known_graphs
from mlbench.conformance.known_state import stepping_graph
from mlbench.execution.onnx_export import exported
from mlbench.toolkit.onnx_lowering import lowered_onnx

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")
pytest.importorskip("torch")

KINDS = {Precision.FP16: onnx.TensorProto.FLOAT16, Precision.BF16: onnx.TensorProto.BFLOAT16}
GRAPHS = [known.graph.name for known in known_graphs()]


def known(name):
    return next(known for known in known_graphs() if known.graph.name == name)


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
    file = lowered_onnx(graph, precision)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert computed_in(model) == {KINDS[precision]}
    inputs = known(name).inputs(known(name).sizes[2], seed=1)
    expected, tolerance = known(name).expected(inputs), graph.tolerance(precision)
    found = dict(zip(expected, reference.ReferenceEvaluator(model).run(list(expected), dict(inputs)), strict=True))
    for spec in graph.outputs:
        assert found[spec.name].dtype == spec.dtype
        np.testing.assert_allclose(
            found[spec.name], expected[spec.name], atol=tolerance.absolute, rtol=tolerance.relative
        )
        assert np.abs(found[spec.name] - expected[spec.name]).max() > 1e-4


@pytest.mark.slow
def test_what_needs_range_or_digits_stays_in_fp32():
    model = onnx.shape_inference.infer_shapes(onnx.load(lowered_onnx(known("tokens").graph, Precision.FP16)))
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.value_info}
    read = [name for node in model.graph.node if node.op_type in ("Softmax", "ReduceSum") for name in node.input]
    assert {kinds[name] for name in read if name in kinds} == {onnx.TensorProto.FLOAT}


@pytest.mark.slow
@pytest.mark.parametrize("precision", KINDS)
def test_state_is_kept_in_the_lower_precision_from_call_to_call(precision):
    model = onnx.load(lowered_onnx(stepping_graph(), precision))
    onnx.checker.check_model(model, full_check=True)
    kinds = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    for spec in stepping_graph().state:
        assert kinds[spec.name] == kinds[f"{spec.name}.next"] == KINDS[precision]
    for spec in stepping_graph().outputs:
        assert kinds[spec.name] == onnx.TensorProto.FLOAT
    scatters = [node for node in model.graph.node if node.op_type == "ScatterND"]
    states = {spec.name for spec in stepping_graph().state}
    assert {node.input[0] for node in scatters} == states  # not by way of a cast, which would copy all of it


@pytest.mark.slow
def test_the_exported_file_stays_as_it_was():
    graph = known("image").graph
    before = exported(graph).read_bytes()
    lowered_onnx(graph, Precision.FP16)
    assert exported(graph).read_bytes() == before
    assert Counter(node.op_type for node in onnx.load(exported(graph)).graph.node)["Cast"] == 0


def test_a_precision_that_is_not_lower_is_refused():
    with pytest.raises(UsageError, match="cannot be lowered to int8"):
        lowered_onnx(known("image").graph, Precision.INT8)
