"""Sessions that see batches of one size each, here on the CPU: the sizes and what comes out are the same anywhere."""

from pathlib import Path

import numpy as np
import pytest
from mlbench_onnxruntime import sessions_by_size
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.options import OnnxRuntimeOptions
from mlbench_onnxruntime.providers import Place
from mlbench_onnxruntime.sessions_by_size import SessionsBySize, plans_by_size
from mlbench_onnxruntime.stateless import HostSession

from mlbench import Dim, Precision, TensorSpec
from mlbench.toolkit import ModuleGraph

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

WEIGHTS = np.random.default_rng(0).standard_normal((2, 3, 3, 3), dtype=np.float32)


def images(largest=64, side=8):
    batch = Dim(name="batch", smallest=1, usual=4, largest=largest)
    return ModuleGraph(
        "images",
        inputs=(TensorSpec(name="images", shape=(batch, 3, side, side), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name="features", shape=(batch, 2, 6, 6), dtype="float32"),),
        build=None,
        fingerprint="images",
    )


def written(path: Path, operator="Conv"):
    node = onnx.helper.make_node(operator, ["images", "weights"], ["features"])
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *shape])
        for name, shape in (("images", (3, 8, 8)), ("features", (2, 6, 6)))
    )
    graph = onnx.helper.make_graph([node], "images", [x], [y], [onnx.numpy_helper.from_array(WEIGHTS, "weights")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path)
    return path


class Loaded:
    """Loads real sessions, and notes the sizes that each of them saw."""

    def __init__(self, file: Path):
        self.file = file
        self.seen: list[set[int]] = []

    def __call__(self):
        session, sizes = HostSession(onnxruntime.InferenceSession(self.file), images()), set()
        self.seen.append(sizes)

        def run(inputs):
            sizes.add(len(inputs["images"]))
            return session(inputs)

        return run


@pytest.fixture
def loaded(tmp_path: Path):
    return Loaded(written(tmp_path / "images.onnx"))


def batch_of(rows, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 3, 8, 8), dtype=np.float32)


def test_each_session_sees_one_size_and_smaller_batches_share_the_next_larger_one(loaded):
    run = SessionsBySize(loaded, images())
    for size in (1, 2, 4, 8, 16, 3, 5, 7, 13, 16, 1, 9, 6):
        run({"images": batch_of(size)})
    assert loaded.seen == [{1}, {2}, {4}, {8}, {16}]


def test_answers_are_those_of_a_session_that_sees_all_sizes_and_stay_as_they_are(loaded):
    run, usual = SessionsBySize(loaded, images()), loaded()
    sizes = [1, 2, 4, 8, *np.random.default_rng(1).integers(1, 9, 40)]
    answers = [run({"images": batch_of(size, turn)})["features"] for turn, size in enumerate(sizes)]
    for turn, (answer, size) in enumerate(zip(answers, sizes, strict=True)):
        expected = usual({"images": batch_of(size, turn)})["features"]
        assert answer.shape == expected.shape
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5)


def test_sizes_beyond_the_most_sessions_are_computed_as_well(loaded, monkeypatch):
    monkeypatch.setattr(sessions_by_size, "MOST_SESSIONS", 2)
    run = SessionsBySize(loaded, images())
    found = {size: run({"images": batch_of(size)})["features"] for size in (1, 2, 8, 5)}
    assert {size: len(array) for size, array in found.items()} == {1: 1, 2: 2, 8: 8, 5: 5}
    assert loaded.seen == [{1}, {2, 8, 5}]


@pytest.mark.parametrize(
    ("operator", "largest", "expected"),
    [("Conv", 64, True), ("Conv", 4096, False), ("Add", 64, False)],
    ids=["convolutions", "batches of thousands", "no convolution"],
)
def test_convolutions_whose_batches_vary_in_size_alone_are_planned_by_size(tmp_path, operator, largest, expected):
    assert plans_by_size(images(largest), written(tmp_path / "graph.onnx", operator)) is expected


def test_a_model_whose_weights_take_too_much_memory_has_one_session(tmp_path, monkeypatch):
    """2 x 3 x 3 x 3 floats."""
    file = written(tmp_path / "graph.onnx")
    for most_bytes, expected in ((216, True), (215, False)):
        monkeypatch.setattr(sessions_by_size, "MOST_WEIGHT_BYTES", most_bytes)
        assert plans_by_size(images(), file) is expected


def test_one_of_several_sessions_takes_no_more_memory_than_it_needs_unless_the_user_says_otherwise():
    strategy = "arena_extend_strategy"
    ((_, options),) = Place(provider="CUDAExecutionProvider").shared().providers
    assert options == {"device_id": "0", "use_tf32": "0", strategy: "kSameAsRequested"}
    place = Place(provider="CUDAExecutionProvider", options=((strategy, "kNextPowerOfTwo"),))
    ((_, options),) = place.shared().providers
    assert options[strategy] == "kNextPowerOfTwo"


@pytest.mark.gpu
@pytest.mark.skipif(
    "CUDAExecutionProvider" not in onnxruntime.get_available_providers(), reason="needs onnxruntime-gpu"
)
def test_on_a_gpu_batches_of_changing_size_are_answered_as_on_the_cpu(tmp_path):
    graph, file = images(), written(tmp_path / "images.onnx")
    graph.onnx = lambda: file
    run = OnnxRuntime().with_options(OnnxRuntimeOptions(provider="cuda")).compile(graph, Precision.FP32)
    assert isinstance(run, SessionsBySize)
    usual = HostSession(onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]), graph)
    for turn, size in enumerate([1, 2, 4, 8, *np.random.default_rng(1).integers(1, 9, 40)]):
        given = {"images": batch_of(size, turn)}
        np.testing.assert_allclose(run(given)["features"], usual(given)["features"], rtol=1e-4, atol=1e-5)
    assert sorted(run._sessions) == [1, 2, 4, 8]
