"""Two checkpoints of one architecture, whose weights lie beside files of equal bytes, as those above 1.5 GiB do."""

from pathlib import Path

import numpy as np
import pytest

from mlbench import Dim, Precision, TensorSpec
from mlbench.toolkit import ModuleGraph, onnx_identity
from mlbench.toolkit.onnx_lowering import lower_onnx

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")
pytest.importorskip("torch")

ROWS, SLOTS = (Dim(name=name, smallest=1, usual=2, largest=8) for name in ("rows", "slots"))
FIRST, SECOND = 0.5, -0.25
"""What all weights of a checkpoint are; both are exact in every format."""


class Checkpoint(ModuleGraph):
    """A product with weights beside its file; with state, of which the product's rows become a part."""

    def __init__(self, folder: Path, value: float, *, has_state: bool = False) -> None:
        state = (TensorSpec(name="notes", shape=(SLOTS, 16), dtype="float32"),)
        super().__init__(
            "product",
            inputs=(
                TensorSpec(name="x", shape=(ROWS, 32), dtype="float32"),
                *([TensorSpec(name="places", shape=(ROWS, 1), dtype="int64")] if has_state else []),
            ),
            outputs=(TensorSpec(name="y", shape=(ROWS, 16), dtype="float32"),),
            state=state if has_state else (),
            build=None,
            fingerprint=f"weights {value}",
            calibrate=lambda: ({"x": np.full((2, 32), each, np.float32)} for each in (-1, 1)),
        )
        self._file = folder / str(value) / "product.onnx"
        self._file.parent.mkdir(parents=True)
        onnx.save(
            product(value, has_state), self._file, save_as_external_data=True, location="w.data", size_threshold=0
        )

    def onnx(self) -> Path:
        return self._file


def product(value: float, has_state: bool) -> "onnx.ModelProto":
    helper, floats, ints = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    shapes = {"x": (floats, ["rows", 32]), "places": (ints, ["rows", 1]), "notes": (floats, ["slots", 16])}
    shapes |= {"y": (floats, ["rows", 16]), "notes.next": (floats, ["slots", 16])}
    info = {name: helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in shapes.items()}
    weight = onnx.numpy_helper.from_array(np.full((32, 16), value, np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    inputs, outputs = [info["x"]], [info["y"]]
    if has_state:
        nodes.append(helper.make_node("ScatterND", ["notes", "places", "y"], ["notes.next"], name="note"))
        inputs, outputs = [info["x"], info["places"], info["notes"]], [info["y"], info["notes.next"]]
    graph = helper.make_graph(nodes, "product", inputs, outputs, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))


def checkpoints(folder: Path, *, has_state: bool = False) -> tuple[Checkpoint, Checkpoint]:
    first, second = (Checkpoint(folder, value, has_state=has_state) for value in (FIRST, SECOND))
    assert first.onnx().read_bytes() == second.onnx().read_bytes()
    return first, second


def products(file: Path, graph: Checkpoint) -> np.ndarray:
    """Compute a file for ones, of which there are 32, with no kernel but the standard's operators."""
    notes = np.zeros((2, 16), np.float32)
    given = {"x": np.ones((1, 32), np.float32), "places": np.zeros((1, 1), np.int64), "notes": notes}
    model = onnx.load(file)
    model.opset_import[0].version = 19  # means the same, and is the lowest that the evaluator has all operators of
    evaluator = reference.ReferenceEvaluator(model)
    return evaluator.run(["y"], {spec.name: given[spec.name] for spec in (*graph.inputs, *graph.state)})[0]


def test_a_file_is_distinguished_from_one_with_other_weights_and_from_another_of_the_same_graph(tmp_path):
    first, second = checkpoints(tmp_path)
    lowered = lower_onnx(first, Precision.FP16)
    found = [onnx_identity(first, first.onnx()), onnx_identity(second, second.onnx()), onnx_identity(first, lowered)]
    assert all(found.count(each) == 1 for each in found)


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.BF16])
def test_a_lowered_file_has_the_weights_of_its_own_checkpoint(tmp_path, precision):
    for graph, value in zip(checkpoints(tmp_path), (FIRST, SECOND), strict=True):
        (weight,) = onnx.load(lower_onnx(graph, precision)).graph.initializer
        bits = np.frombuffer(weight.raw_data, np.uint16)
        exact = np.float16(value).view(np.uint16) if precision is Precision.FP16 else np.float32(value).view("u4") >> 16
        assert set(bits.tolist()) == {int(exact)}


@pytest.mark.parametrize("has_state", [False, True], ids=["by calibration", "by call"])
def test_a_quantised_file_has_the_weights_of_its_own_checkpoint(tmp_path, has_state):
    pytest.importorskip("onnxruntime")
    from mlbench.toolkit.onnx_quantization import Scheme, quantize_onnx

    for graph, value in zip(checkpoints(tmp_path, has_state=has_state), (FIRST, SECOND), strict=True):
        file = quantize_onnx(graph, Scheme.UNSIGNED, per_channel=True)
        np.testing.assert_allclose(products(file, graph), 32 * value, rtol=0.02)
