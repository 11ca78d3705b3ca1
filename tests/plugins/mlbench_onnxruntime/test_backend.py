import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from invoking import invoke
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.libraries import load_libraries
from mlbench_onnxruntime.placement import check_placement
from mlbench_onnxruntime.providers import Place, usable_provider
from mlbench_onnxruntime.stateless import BoundSession, HostSession
from product_graph import WEIGHT, FileGraph, backend, inputs

from mlbench import GraphError, Precision, UsageError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ON_ONE_PROCESSOR = """
import os, sys, time
from pathlib import Path
allowed = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {allowed})
import onnxruntime
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench import Precision
from mlbench.toolkit import OnnxFileGraph
made = OnnxRuntime().compile(OnnxFileGraph("product", Path(sys.argv[1]), md5="", inputs=(), outputs=()), Precision.FP32)
time.sleep(0.3)  # a thread binds itself once it has begun
threads = os.listdir("/proc/self/task")
print(set().union(*(os.sched_getaffinity(int(thread)) for thread in threads)) - {allowed})
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
def test_a_session_stays_on_the_processors_that_its_process_may_use(product: Path):
    """ONNX Runtime's own choice of threads binds one to each core of the machine, also under ``taskset``."""
    command = [sys.executable, "-c", ON_ONE_PROCESSOR, str(product)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider"])
def test_a_provider_goes_by_its_short_or_its_full_name(name: str):
    assert usable_provider(name) == "CPUExecutionProvider"


def test_a_provider_that_this_build_lacks_is_refused_with_those_it_has(product: Path):
    with pytest.raises(UsageError, match=r"'abacus'.*does not have") as caught:
        backend(provider="abacus").compile(FileGraph(product, []), Precision.FP32)
    assert "cpu" in caught.value.hint
    assert "pip uninstall -y onnxruntime && pip install 'mlbench-inference[onnxruntime-gpu]'" in caught.value.hint


class FallenBack:
    """A session that carried on with another provider than it was asked for."""

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


def test_falling_back_to_another_provider_is_refused(product: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: FallenBack())
    with pytest.raises(UsageError, match="could not start CUDAExecutionProvider"):
        backend(provider="cuda").compile(FileGraph(product, []), Precision.FP32)


def test_what_a_provider_lacks_is_named_and_what_the_loading_prints_stays_out_of_results(
    product: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    load_libraries.cache_clear()
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: print("Failed to load libcudnn.so.9"))
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: FallenBack())
    # the build for CPUs lacks the very library of the provider
    lacking = r"fell back to CPUExecutionProvider \(.*libonnxruntime_providers_cuda.so: cannot open shared object"
    with pytest.raises(UsageError, match=lacking):
        backend(provider="cuda").compile(FileGraph(product, []), Precision.FP32)
    assert capfd.readouterr().out == ""
    assert "Failed to load libcudnn.so.9" in caplog.text


def test_who_runs_which_operators_is_reported_in_the_record(product: Path):
    made = backend()
    made.with_options(made.options).compile(FileGraph(product, []), Precision.FP32)
    assert made.observe().extra["operators"] == {"product": {"CPUExecutionProvider": 1}}


def test_a_graph_that_a_device_leaves_to_the_cpu_altogether_is_refused():
    cuda = Place(provider="CUDAExecutionProvider")
    with pytest.raises(
        GraphError, match=r"^CUDAExecutionProvider runs no operator of graph reader: all fell back to CPU"
    ):
        check_placement(cuda, "reader", {"CPUExecutionProvider": {"MatMul": 4}})
    check_placement(Place(provider="CPUExecutionProvider"), "reader", {"CPUExecutionProvider": {"MatMul": 4}})
    check_placement(cuda, "reader", {})  # ONNX Runtime is too old to say


def test_products_that_a_device_leaves_to_the_cpu_are_warned_of_and_arithmetic_with_shapes_is_not(
    caplog: pytest.LogCaptureFixture,
):
    cuda = Place(provider="CUDAExecutionProvider")
    check_placement(cuda, "reader", {"CPUExecutionProvider": {"Gather": 3}, "CUDAExecutionProvider": {"MatMul": 9}})
    assert caplog.text == ""
    left = {"Gather": 3, "QLinearConv": 2, "MatMul": 1}
    check_placement(cuda, "reader", {"CPUExecutionProvider": left, "CUDAExecutionProvider": {"MatMul": 9}})
    assert "CUDAExecutionProvider leaves 1 MatMul, 2 QLinearConv of graph reader to the CPU" in caplog.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"device": 1}, "backend.device is 1, but CPUExecutionProvider has no device numbers"),
        ({"provider_options": {"device_type": "GPU"}}, "has device_type, but CPUExecutionProvider has none"),
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


@pytest.mark.parametrize(
    ("flags", "largest"),
    [
        ({"sse2", "avx2"}, 64),
        ({"sse2", "avx2", "avx512f"}, 64),
        ({"sse2", "avx2", "avx512_vnni"}, 127),
        ({"sse2", "avx2", "avx_vnni"}, 127),
        ({"asimd", "asimddp"}, 127),
    ],
    ids=["AVX2", "AVX-512", "AVX-512 VNNI", "AVX VNNI", "Arm"],
)
def test_int8_weights_have_seven_bits_where_two_products_exceed_sixteen(
    product: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: set[str], largest: int
):
    monkeypatch.setattr("mlbench.toolkit.onnx_quantization.machine_flags", lambda: frozenset(flags))
    backend().compile(FileGraph(product, [inputs()]), Precision.INT8)
    (file,) = quantised_files(tmp_path / "cache")
    tensors = [onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(file).graph.initializer]
    (weights,) = [tensor for tensor in tensors if tensor.dtype == np.int8 and tensor.size == WEIGHT.size]
    assert np.abs(weights).max() == largest


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
    one = SimpleNamespace(read_text=lambda file: "Version: 1.0\n")
    return lambda asked: {name: one for name in asked if name in names}


def test_the_probe_tells_devices_by_the_distribution(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "mlbench.system.installed.find_distributions", installed("onnxruntime-gpu", "torch", "onnx", "onnxscript")
    )
    probe = OnnxRuntime().probe()
    assert probe.is_available
    assert list(probe.devices) == ["cpu", "cuda"]


def test_two_distributions_of_one_module_are_refused_and_distinguished(monkeypatch: pytest.MonkeyPatch):
    both = ("onnxruntime", "onnxruntime-gpu")
    monkeypatch.setattr("mlbench.system.installed.find_distributions", installed(*both, "torch", "onnx", "onnxscript"))
    probe = OnnxRuntime().probe()
    assert (probe.is_available, probe.reason) == (
        False,
        "onnxruntime and onnxruntime-gpu are installed over each other",
    )
    assert (
        probe.install
        == "pip uninstall -y onnxruntime onnxruntime-gpu && pip install 'mlbench-inference[onnxruntime-gpu]'"
    )
    for command in ("list", "doctor"):
        printed = invoke(command).output
        assert f"{probe.reason}; {probe.install}" in printed


def test_a_distribution_whose_files_went_with_another_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "mlbench.system.installed.find_distributions", installed("onnxruntime-gpu", "torch", "onnx", "onnxscript")
    )
    namespace = SimpleNamespace(origin=None)  # a folder is left, without its __init__.py
    monkeypatch.setattr("mlbench_onnxruntime.backend.find_spec", lambda name: namespace)
    probe = OnnxRuntime().probe()
    assert (probe.is_available, probe.reason) == (False, "the files of onnxruntime-gpu are gone")
    assert probe.install == "pip uninstall -y onnxruntime-gpu && pip install 'mlbench-inference[onnxruntime-gpu]'"


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
    monkeypatch.setattr("mlbench.system.installed.find_distributions", installed(*names))
    probe = OnnxRuntime().probe()
    assert (probe.is_available, probe.reason, probe.install) == (False, reason, "pip install 'mlbench-inference[cpu]'")
