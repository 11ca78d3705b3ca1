"""Models that mislead: what cannot be measured is refused in one line, and what answers otherwise is named."""

import numpy as np
import onnx
import pytest
from mlbench_own_model.accuracy import OutputDifferences
from mlbench_own_model.dataset import open_inputs
from mlbench_own_model.graphs import open_model
from mlbench_own_model.options import OwnModelOptions
from mlbench_own_model.program import TensorProgram
from onnx import TensorProto, helper, numpy_helper

from mlbench import LoggedReply, MlbenchError, Precision, Profile, Variant, Weights

X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
MINUS_MEAN = [
    helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
    helper.make_node("Sub", ["x", "mean"], ["y"]),
]
NO_NUMBER = [helper.make_node("Sub", ["x", "x"], ["zero"]), helper.make_node("Div", ["zero", "zero"], ["y"])]
RELU = [helper.make_node("Relu", ["x"], ["y"])]


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def scored(tmp_path):
    """Score the answers that a model has for all samples at once, and return the metric as well."""

    def scored(nodes, inputs=(X,), outputs=(Y,), weights=()):
        graph = helper.make_graph(nodes, "odd", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / "odd.onnx")
        options = OwnModelOptions(model=tmp_path / "odd.onnx")
        opened = open_model(options)
        data = open_inputs(opened, options)
        variant = Variant(profile=Profile.FULL, weights=Weights.TRAINED, options=options, precision=Precision.FP32)
        metric = OutputDifferences.for_run(variant, data)
        run = opened.file.compile_reference(opened.file.graph(opened.signature, lambda: iter(())))
        samples = [data.sample(index) for index in range(data.count)]
        replies = TensorProgram(opened.signature).run(samples, {"model": run})
        logged = [LoggedReply(index=at, data=np.asarray(reply).tobytes()) for at, reply in enumerate(replies)]
        return metric.score(logged), metric

    return scored


def test_samples_that_depend_on_each_other_in_a_batch_are_named(scored):
    scores, metric = scored(MINUS_MEAN)
    assert scores["difference"] > metric.limits.difference
    assert "The first answer that differs is to sample 0: output y" in metric.first_wrong()


def test_answers_that_are_all_alike_are_right(scored):
    zeros = numpy_helper.from_array(np.zeros(1, "f"), "zeros")
    scores, _ = scored([helper.make_node("Mul", ["x", "zeros"], ["y"])], weights=[zeros])
    assert scores["difference"] == 0


def test_weights_that_are_listed_as_inputs_are_weights(scored):
    ones = numpy_helper.from_array(np.ones(4, "f"), "ones")
    scores, _ = scored([helper.make_node("Mul", ["x", "ones"], ["y"])], [X, value("ones", [4])], weights=[ones])
    assert scores["difference"] == 0


def outside():
    """Return weights that lie in a file outside the model's folder."""
    tensor = numpy_helper.from_array(np.ones((4, 4), "f"), "weights")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    place = tensor.external_data.add()
    place.key, place.value = "location", "../../../etc/passwd"
    return tensor


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"nodes": NO_NUMBER}, "odd.onnx answers none of these samples with a finite number. Give --inputs FILE."),
        ({"nodes": RELU, "inputs": [value("x", [10**6, 10**6])]}, "a sample of odd.onnx takes 3,725 GiB."),
        ({"nodes": RELU, "inputs": [value("x", None)]}, "odd.onnx does not say how many axes input x has."),
        ({"nodes": RELU, "outputs": [value("y", None)]}, "odd.onnx does not say how many axes output y has."),
        (
            {"nodes": RELU, "inputs": [value("x", ["batch"], TensorProto.STRING)]},
            "input x is object, which NumPy has no",
        ),
        (
            {"nodes": RELU, "outputs": [value("y", ["rows", 4])]},
            "odd.onnx leaves the size of batch open (x: batch x 4).",
        ),
        (
            {"nodes": [helper.make_node("MatMul", ["x", "weights"], ["y"])], "weights": [outside()]},
            "odd.onnx keeps weights in '../../../etc/passwd', outside its folder.",
        ),
    ],
)
def test_a_model_that_cannot_be_measured_is_refused(scored, parts, message):
    with pytest.raises(MlbenchError) as error:
        scored(**parts)
    assert message in str(error.value)
