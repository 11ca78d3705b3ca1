import importlib.metadata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.providers import Place, usable_provider
from mlbench_onnxruntime.stateless import BoundSession, HostSession

from mlbench import Dim, GraphError, Precision, TensorSpec, UsageError
from mlbench.toolkit import ModuleGraph

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

BATCH = Dim(name="batch", smallest=1, usual=2, largest=8)


class FileGraph(ModuleGraph):
    """A graph that is an ONNX file already, so that nothing needs to be exported."""

    def __init__(self, file: Path, calibration: list[np.ndarray]) -> None:
        super().__init__(
            "product",
            inputs=(TensorSpec(name="x", shape=(BATCH, 4), dtype="float32"),),
            outputs=(TensorSpec(name="y", shape=(BATCH, 3), dtype="float32"),),
            build=None,
            fingerprint="product",
            calibrate=lambda: ({"x": array} for array in calibration),
        )
        self._file = file

    def onnx(self) -> Path:
        return self._file


WEIGHT = np.arange(-6, 6, dtype=np.float32).reshape(4, 3) / 6


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that computes y = x @ WEIGHT."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", size])
        for name, size in (("x", 4), ("y", 3))
    )
    graph = onnx.helper.make_graph([node], "product", [x], [y], [onnx.numpy_helper.from_array(WEIGHT, "w")])
    opset = onnx.helper.make_opsetid("", 18)
    path = tmp_path / "product.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def backend(**options) -> OnnxRuntime:
    made = OnnxRuntime()
    made.options = replace(made.options, threads=1, **options)
    return made


def inputs(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (8, 4)).astype(np.float32)


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider"])
def test_a_provider_goes_by_its_short_or_its_full_name(name: str):
    assert usable_provider(name) == "CPUExecutionProvider"


def test_a_provider_that_this_build_lacks_is_refused_with_those_it_has(product: Path):
    with pytest.raises(UsageError, match=r"'abacus'.*does not have") as caught:
        backend(provider="abacus").compile(FileGraph(product, []), Precision.FP32)
    assert "cpu" in caught.value.hint


class FallenBack:
    """A session that carried on with another provider than it was asked for."""

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


def test_falling_back_to_another_provider_is_refused(product: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: FallenBack())
    with pytest.raises(UsageError, match="could not start CUDAExecutionProvider"):
        backend(provider="cuda").compile(FileGraph(product, []), Precision.FP32)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"device": 1}, "backend.device is 1, and CPUExecutionProvider takes no number of a device"),
        ({"provider_options": {"device_type": "GPU"}}, "has device_type, and CPUExecutionProvider takes none"),
    ],
)
def test_what_the_cpu_does_not_take_is_refused(product: Path, options: dict, told: str):
    with pytest.raises(UsageError, match=told):
        backend(**options).compile(FileGraph(product, []), Precision.FP32)


def test_a_device_that_cannot_be_started_is_refused_with_its_number_before_the_graph_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
):
    class Refusing:
        def __init__(self, *_: object, **__: object) -> None:
            raise RuntimeError("CUDA failure 101: invalid device ordinal\n... and so on")

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", Refusing)
    with pytest.raises(UsageError, match="CUDAExecutionProvider on device 7: CUDA failure 101: invalid") as caught:
        backend(provider="cuda", device=7).compile(FileGraph(Path("/nowhere"), []), Precision.FP32)
    assert "\n" not in str(caught.value)


def test_a_providers_options_and_number_reach_it_and_what_stands_behind_it():
    place = Place(provider="TensorrtExecutionProvider", device=2, options=(("trt_builder_optimization_level", "5"),))
    assert place.providers == [
        ("TensorrtExecutionProvider", {"device_id": "2", "trt_builder_optimization_level": "5"}),
        ("CUDAExecutionProvider", {"device_id": "2"}),
    ]
    assert Place(provider="CPUExecutionProvider").providers == [("CPUExecutionProvider", {})]


def test_a_session_that_is_bound_computes_what_an_unbound_one_does(product: Path):
    session = onnxruntime.InferenceSession(product, providers=["CPUExecutionProvider"])
    graph, place = FileGraph(product, []), Place(provider="CPUExecutionProvider")
    bound = BoundSession(session, graph, place)
    first = bound({"x": inputs(1)})["y"]
    np.testing.assert_array_equal(first, HostSession(session, graph)({"x": inputs(1)})["y"])
    kept = first.copy()
    bound({"x": inputs(2)})
    np.testing.assert_array_equal(first, kept)


def test_a_file_that_cannot_be_loaded_names_graph_and_reason(product: Path):
    product.write_bytes(b"not a model")
    with pytest.raises(GraphError, match=r"cannot load graph product on CPUExecutionProvider: .+"):
        backend().compile(FileGraph(product, []), Precision.FP32)


@pytest.mark.parametrize("optimization", ["none", "basic", "extended", "all"])
def test_every_optimisation_level_computes_the_same(product: Path, optimization: str):
    executable = backend(optimization=optimization).compile(FileGraph(product, []), Precision.FP32)
    np.testing.assert_allclose(executable({"x": inputs()})["y"], inputs() @ WEIGHT, atol=1e-6)


@pytest.mark.parametrize("per_channel", [True, False])
def test_int8_multiplies_integers_and_stays_close(product: Path, per_channel: bool):
    graph = FileGraph(product, [inputs(seed) for seed in range(8)])
    executable = backend(per_channel=per_channel).compile(graph, Precision.INT8)
    found = executable({"x": inputs()})["y"]
    error = np.abs(found - inputs() @ WEIGHT).max()
    assert 1e-5 < error < 0.05  # a step of 8 bits over -1 .. 1 is 0.008, and four products are summed


def test_int8_without_calibration_inputs_is_refused(product: Path):
    with pytest.raises(GraphError, match="graph product has no calibration inputs"):
        backend().compile(FileGraph(product, []), Precision.INT8)


def quantised_files(cache: Path) -> Iterator[Path]:
    return (cache / "quantized").rglob("*.onnx")


def test_int8_is_made_once_and_again_for_other_calibration_inputs_or_settings(product: Path, tmp_path: Path):
    graph, other = FileGraph(product, [inputs(1)]), FileGraph(product, [inputs(2)])
    backend().compile(graph, Precision.INT8)
    (made,) = quantised_files(tmp_path / "cache")
    before = made.stat()
    backend().compile(graph, Precision.INT8)
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    backend().compile(other, Precision.INT8)
    backend(per_channel=False).compile(graph, Precision.INT8)
    assert len(list(quantised_files(tmp_path / "cache"))) == 3


def installed(*names: str):
    def version(name: str) -> str:
        if name in names:
            return "1.0"
        raise importlib.metadata.PackageNotFoundError(name)

    return version


def test_the_probe_tells_devices_by_the_distribution(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.metadata, "version", installed("onnxruntime-gpu", "torch", "onnx", "onnxscript"))
    probe = OnnxRuntime().probe()
    assert probe.is_available
    assert list(probe.devices) == ["cpu", "cuda"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("torch", "onnx", "onnxscript"), "onnxruntime not installed"),
        (("onnxruntime", "onnx"), "torch, onnxscript not installed"),
    ],
)
def test_the_probe_says_what_is_missing_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], reason: str
):
    monkeypatch.setattr(importlib.metadata, "version", installed(*names))
    probe = OnnxRuntime().probe()
    assert (probe.is_available, probe.reason, probe.install) == (False, reason, "pip install 'mlbench[cpu]'")
