"""Convolutions of volumes split by depth, against torch."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.convolutions import split_convolutions
from mlbench_onnxruntime.cpu_operators import with_cpu_operators

from mlbench import Dim, Precision, TensorSpec
from mlbench.toolkit import OnnxFileGraph

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SIDES = (5, 6, 7)
CASES = {
    "padded": {"pads": [1] * 6},
    "not padded": {},
    "padded in depth alone": {"pads": [1, 0, 0] * 2},
    "two planes deep": {"kernel": (2, 3, 3), "pads": [0, 1, 1] * 2},
    "strided in the plane": {"pads": [1] * 6, "strides": [1, 2, 2]},
    "dilated in the plane": {"pads": [1] * 6, "dilations": [1, 2, 1]},
    "five planes deep, with a bias": {"kernel": (5, 1, 3), "pads": [1, 0, 1] * 2, "has_bias": True},
}
OTHERS = {
    "few inputs": {"inputs": 1},
    "many outputs": {"inputs": 64, "outputs": 64},
    "much to add up": {"inputs": 32, "outputs": 32, "sides": (128, 128, 128)},
    "strided in depth": {"strides": [2, 1, 1]},
    "dilated in depth": {"dilations": [2, 1, 1]},
    "padded on one side": {"pads": [1, 0, 0, 0, 0, 0]},
    "padded as it finds it": {"auto_pad": "SAME_UPPER"},
    "in groups": {"inputs": 2, "outputs": 4, "group": 2},
    "of planes": {"kernel": (1, 3, 3)},
    "of unknown sides": {"sides": ("d", "h", "w")},
    "before Col2Im": {"opset": 17},
}


def convolution(*, inputs=4, outputs=6, kernel=(3, 3, 3), has_bias=False, sides=SIDES, opset=18, **attributes):
    """Return a model of one convolution, ``x`` to ``y``, with drawn weights ``w`` and ``b``."""
    random = np.random.default_rng(5)
    tensors = {"w": random.standard_normal((outputs, inputs // attributes.get("group", 1), *kernel), dtype=np.float32)}
    if has_bias:
        tensors["b"] = random.standard_normal(outputs, dtype=np.float32)
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", channels, *shape])
        for name, channels, shape in (("x", inputs, sides), ("y", outputs, (None,) * 3))
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", *tensors], ["y"], name="conv", **attributes)],
        "convolution",
        values[:1],
        values[1:],
        [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)


def computed_by_torch(model, x: np.ndarray) -> np.ndarray:
    tensors = {each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()) for each in model.graph.initializer}
    node = model.graph.node[0]
    told = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    return torch.nn.functional.conv3d(
        torch.from_numpy(x),
        tensors["w"],
        tensors.get("b"),
        padding=tuple(told.get("pads", [0] * 6)[:3]),
        stride=tuple(told.get("strides", [1, 1, 1])),
        dilation=tuple(told.get("dilations", [1, 1, 1])),
    ).numpy()


def graph_of(file: Path) -> OnnxFileGraph:
    batch = Dim(name="batch", smallest=1, usual=2, largest=8)
    return OnnxFileGraph(
        "convolution",
        file,
        md5=hashlib.md5(file.read_bytes()).hexdigest(),
        inputs=(TensorSpec(name="x", shape=(batch, 4, *SIDES), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(batch, 6, *SIDES), dtype="float32"),),
    )


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def drawn(batch: int) -> np.ndarray:
    return np.random.default_rng(6).standard_normal((batch, 4, *SIDES), dtype=np.float32)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_narrow_convolution_of_volumes_gives_the_same_split_by_depth(case, batch):
    import onnxruntime

    model, x = convolution(**CASES[case]), drawn(batch)
    expected = computed_by_torch(model, x)
    assert split_convolutions(model, Path()) == 1
    assert [node.op_type for node in model.graph.node] == ["Conv", "Reshape", "Col2Im", "Reshape"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["y"], {"x": x})[0], expected, atol=1e-4)


@pytest.mark.parametrize("case", OTHERS)
def test_any_other_convolution_is_left_as_it_is(case):
    model = convolution(**OTHERS[case])
    before = model.SerializeToString()
    assert split_convolutions(model, Path()) == 0
    assert model.SerializeToString() == before


@pytest.mark.parametrize(
    ("precision", "optimization", "is_split"),
    [(Precision.FP32, "all", True), (Precision.FP32, "basic", False), (Precision.FP16, "all", False)],
)
def test_convolutions_are_split_in_fp32_where_sessions_may_rewrite_graphs(
    cache, tmp_path, precision, optimization, is_split
):
    model, x = convolution(**CASES["padded"]), drawn(2)
    onnx.save(model, tmp_path / "convolution.onnx")
    backend = OnnxRuntime()
    backend = backend.with_options(replace(backend.options, threads=1, optimization=optimization))
    found = backend.compile(graph_of(tmp_path / "convolution.onnx"), precision)({"x": x})["y"]
    np.testing.assert_allclose(found, computed_by_torch(model, x), atol=0.05 if precision is Precision.FP16 else 1e-4)
    assert any(cache.glob("rewritten/*/convolution.onnx")) == is_split


def test_weights_beside_a_file_are_shared_with_the_file_that_is_made_of_it(cache, tmp_path):
    model, x = convolution(**CASES["padded"]), drawn(2)
    model.graph.node[0].output[0] = "z"
    model.graph.node.append(onnx.helper.make_node("Add", ["z", "added"], ["y"]))
    added = np.random.default_rng(9).standard_normal((6, *SIDES), dtype=np.float32)
    expected, file = computed_by_torch(model, x) + added, tmp_path / "convolution.onnx"
    model.graph.initializer.append(onnx.numpy_helper.from_array(added, "added"))
    onnx.save(model, file, save_as_external_data=True, location="weights", size_threshold=0)
    before = (tmp_path / "weights").read_bytes()
    changed = with_cpu_operators(file, graph_of(file))
    assert changed != file
    assert (changed.parent / "weights").samefile(tmp_path / "weights")
    np.testing.assert_allclose(
        OnnxRuntime().compile(graph_of(file), Precision.FP32)({"x": x})["y"], expected, atol=1e-4
    )
    assert (tmp_path / "weights").read_bytes() == before


def test_a_file_without_anything_to_replace_is_used_as_it_is(cache, tmp_path):
    file = tmp_path / "convolution.onnx"
    onnx.save(convolution(**OTHERS["strided in depth"]), file)
    assert with_cpu_operators(file, graph_of(file)) == file
    assert with_cpu_operators(file, graph_of(file)) == file
