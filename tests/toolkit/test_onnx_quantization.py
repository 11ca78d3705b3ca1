"""Quantised files: close to the module, and in the form that each kind of runtime takes."""

import numpy as np
import pytest

from mlbench import Precision
from mlbench.conformance.known_answers import reference_graphs

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

from mlbench.toolkit.onnx_quantization import Scheme, quantize_onnx  # noqa: E402

pytestmark = pytest.mark.slow


def computed(file, inputs):
    """Compute a file as it is written, with no kernel but the standard's operators."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))


def zero_points(model):
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    pairs = [node for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    return [tensors[node.input[2]] for node in pairs]


@pytest.mark.parametrize("known", reference_graphs(), ids=lambda known: known.graph.name)
@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_quantised_file_is_valid_and_close_to_the_module(known, scheme):
    file = quantize_onnx(known.graph, scheme, per_channel=scheme is not Scheme.FP8)
    onnx.checker.check_model(str(file), full_check=True)
    inputs = known.inputs(known.sizes[2], seed=1)
    tolerance = known.graph.tolerance(Precision.FP8 if scheme is Scheme.FP8 else Precision.INT8)
    for found, expected in zip(computed(file, inputs), known.compute_outputs(inputs).values(), strict=True):
        np.testing.assert_allclose(found, expected, atol=tolerance.absolute, rtol=tolerance.relative)
        assert np.abs(found - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("scheme", "kind"), [(Scheme.SYMMETRIC, onnx.TensorProto.INT8), (Scheme.FP8, onnx.TensorProto.FLOAT8E4M3FN)]
)
def test_what_tensorrt_takes_has_its_zero_at_zero_and_no_integer_weights(scheme, kind):
    model = onnx.load(quantize_onnx(reference_graphs()[0].graph, scheme, per_channel=False))
    zeros = zero_points(model)
    assert {tensor.data_type for tensor in zeros} == {kind}
    assert all(not np.asarray(onnx.numpy_helper.to_array(tensor)).astype(np.float32).any() for tensor in zeros)
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    assert onnx.TensorProto.INT32 not in kinds  # biases
    weights = [tensor for tensor in model.graph.initializer if tensor.dims and np.prod(tensor.dims) > 100]
    assert weights and all(tensor.data_type == onnx.TensorProto.FLOAT for tensor in weights)


def test_inputs_that_begin_as_others_do_give_a_file_of_their_own():
    graph = reference_graphs()[0].graph
    file = quantize_onnx(graph, Scheme.UNSIGNED, per_channel=True)
    graph.calibration_id = "another list"
    assert quantize_onnx(graph, Scheme.UNSIGNED, per_channel=True) != file


def test_fp8s_largest_value_stands_for_what_was_int8s():
    files = [
        quantize_onnx(reference_graphs()[0].graph, scheme, per_channel=False)
        for scheme in (Scheme.SYMMETRIC, Scheme.FP8)
    ]
    scales = []
    for file in files:
        model = onnx.load(file)
        tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
        scales.append(float(tensors[first.input[1]]))
    assert scales[1] * 448 == pytest.approx(scales[0] * 127)
