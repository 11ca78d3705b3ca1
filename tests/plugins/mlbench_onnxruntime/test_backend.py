import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.libraries import load_libraries
from mlbench_onnxruntime.placement import check_placement
from mlbench_onnxruntime.products import measure_bits, product_model
from mlbench_onnxruntime.providers import Place, fp32_bits, usable_provider
from mlbench_onnxruntime.stateless import BoundSession, HostSession
from mlbench_onnxruntime.tensorrt_options import profile_options, tensorrt_options

from mlbench import Dim, GraphError, Precision, TensorSpec, UsageError
from mlbench.cli import main
from mlbench.toolkit import ModuleGraph

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

BATCH = Dim(name="batch", smallest=1, usual=2, largest=8)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measure providers anew, and leave the environment as it was."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE")
    fp32_bits.cache_clear()
    yield
    fp32_bits.cache_clear()


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


def test_a_providers_options_and_number_reach_it_and_what_stands_behind_it():
    place = Place(provider="TensorrtExecutionProvider", device=2, options=(("trt_builder_optimization_level", "5"),))
    assert place.providers == [
        ("TensorrtExecutionProvider", {"device_id": "2", "trt_builder_optimization_level": "5"}),
        ("CUDAExecutionProvider", {"device_id": "2", "use_tf32": "0"}),
    ]
    assert Place(provider="CPUExecutionProvider").providers == [("CPUExecutionProvider", {})]


def test_fp32_on_a_gpu_is_fp32_unless_the_user_says_otherwise():
    """TF32 is ONNX Runtime's default there: products of 10 bits of mantissa."""
    (cuda,) = Place(provider="CUDAExecutionProvider").providers
    assert cuda == ("CUDAExecutionProvider", {"device_id": "0", "use_tf32": "0"})
    (asked,) = Place(provider="CUDAExecutionProvider", options=(("use_tf32", "1"),)).providers
    assert asked[1]["use_tf32"] == "1"


def test_tensorrt_gets_the_shapes_that_will_come(product: Path):
    assert profile_options(FileGraph(product, [])) == {
        "trt_profile_min_shapes": "x:1x4",
        "trt_profile_opt_shapes": "x:2x4",
        "trt_profile_max_shapes": "x:8x4",
    }


def test_tensorrts_engines_are_kept_apart_by_the_weights_and_not_only_by_the_file(product: Path):
    graph, other = FileGraph(product, []), FileGraph(product, [])
    other._fingerprint = "other weights"
    found = [tensorrt_options(each, product, 0) for each in (graph, other, graph)]
    folders = [each["trt_engine_cache_path"] for each in found]
    assert folders[0] == folders[2] != folders[1]
    assert all(Path(folder).is_dir() for folder in folders)
    assert {each["trt_timing_cache_path"] for each in found} == {found[0]["trt_timing_cache_path"]}
    assert {each[f"trt_{kind}_cache_enable"] for each in found for kind in ("engine", "timing")} == {"1"}


class Sessions:
    """Starts any provider; TensorRT takes no profiles, as where it gets only parts of a graph."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.chains: list[list[tuple[str, dict[str, str]]]] = []

    def __call__(self, path: object, settings: object, providers: list, enable_fallback: int) -> "Sessions":
        self.chains.append(providers)
        if self.refused in providers[0][1]:
            raise RuntimeError("User needs to provide all the dynamic shape inputs with associated profiles")
        return self

    def get_providers(self) -> list[str]:
        return [name for name, _ in self.chains[-1]]

    def run(self, outputs: object, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [inputs["x"]]  # the product with ones on the diagonal


@pytest.mark.parametrize(
    ("given", "refused", "kept"),
    [
        ({}, "", {"min": "x:1x4", "max": "x:8x4"}),
        ({}, "trt_profile_min_shapes", {}),
        ({"trt_profile_max_shapes": "x:2x4"}, "", {"max": "x:2x4"}),
    ],
    ids=["ours", "parts", "the user's"],
)
def test_a_session_on_tensorrt_gets_profiles_and_a_cache(product: Path, monkeypatch, given, refused, kept):
    sessions = Sessions(refused)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["TensorrtExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", sessions)
    backend(provider="tensorrt", provider_options=given).compile(FileGraph(product, []), Precision.FP32)
    (_, options), (behind, _) = sessions.chains[-1]
    profiles = {name.split("_")[2]: shapes for name, shapes in options.items() if name.startswith("trt_profile")}
    assert {kind: shapes for kind, shapes in profiles.items() if kind != "opt"} == kept
    assert (options["device_id"], options["trt_engine_cache_enable"]) == ("0", "1")
    assert behind == "CUDAExecutionProvider"


def rounding(kind: int) -> bytes:
    """Return the model that products are measured with, as a provider that rounds factors computes it."""
    model = onnx.load_from_string(product_model())
    casts = [
        onnx.helper.make_node("Cast", [source], [target], to=to)
        for name in "xy"
        for source, target, to in ((name, f"{name}_low", kind), (f"{name}_low", f"{name}_back", onnx.TensorProto.FLOAT))
    ]
    node = onnx.helper.make_node("MatMul", ["x_back", "y_back"], ["z"])
    del model.graph.node[:]
    model.graph.node.extend([*casts, node])
    return model.SerializeToString()


def on_cpu(model: bytes | Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("kind", "bits"), [("FLOAT", 23), ("FLOAT16", 10), ("BFLOAT16", 7)], ids=["fp32", "as TF32 and fp16", "bf16"]
)
def test_a_product_tells_how_many_bits_of_its_factors_were_kept(kind: str, bits: int):
    assert measure_bits(on_cpu(rounding(getattr(onnx.TensorProto, kind)))) == bits


class Rounding:
    """Starts TensorRT's sessions on the CPU, and rounds as it does to TF32 unless its libraries were told not to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, heeds: bool = True) -> None:
        self.heeds = heeds
        self.first = ""  # NVIDIA's libraries read the variable once
        self.session = onnxruntime.InferenceSession
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["TensorrtExecutionProvider"])
        monkeypatch.setattr(onnxruntime, "InferenceSession", self)

    def __call__(self, model: bytes | Path, *_: object, **__: object) -> SimpleNamespace:
        self.first = self.first or os.environ.get("NVIDIA_TF32_OVERRIDE", "unset")
        is_lower = isinstance(model, bytes) and not (self.heeds and self.first == "0")
        model = rounding(onnx.TensorProto.FLOAT16) if is_lower else model
        session = self.session(model, providers=["CPUExecutionProvider"])
        return SimpleNamespace(run=session.run, get_providers=lambda: ["TensorrtExecutionProvider"])


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16])
def test_tensorrt_is_kept_from_tf32_before_its_first_session_and_the_record_says_what_was_measured(
    product: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision
):
    sessions, made = Rounding(monkeypatch), backend(provider="tensorrt")
    made.compile(FileGraph(product, []), precision)
    assert sessions.first == "0"
    assert made.observe().extra["fp32_mantissa_bits"] == 23


def test_fp32_on_tensorrt_is_refused_where_it_is_computed_in_tf32_all_the_same(product: Path, monkeypatch):
    Rounding(monkeypatch, heeds=False)
    with pytest.raises(UsageError, match="multiplies fp32 numbers with 10 of 23 bits of mantissa") as caught:
        backend(provider="tensorrt").compile(FileGraph(product, []), Precision.FP32)
    assert "NVIDIA_TF32_OVERRIDE=0" in caught.value.hint
    made = backend(provider="tensorrt")
    made.compile(FileGraph(product, []), Precision.FP16)
    assert made.observe().extra["fp32_mantissa_bits"] == 10


def test_fp32_on_tensorrt_is_refused_where_the_user_lets_it_choose_tf32(product: Path, monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["TensorrtExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", Sessions("no option"))
    with pytest.raises(UsageError, match="NVIDIA_TF32_OVERRIDE is '1', but TensorrtExecutionProvider has no option"):
        backend(provider="tensorrt").compile(FileGraph(product, []), Precision.FP32)
    assert os.environ["NVIDIA_TF32_OVERRIDE"] == "1"


def test_a_user_who_asks_a_provider_for_a_lower_precision_gets_it_and_the_record_says_so(product: Path, monkeypatch):
    Rounding(monkeypatch, heeds=False)
    made = backend(provider="tensorrt", provider_options={"trt_fp16_enable": "1"})
    made.compile(FileGraph(product, []), Precision.FP32)
    assert made.observe().extra["fp32_mantissa_bits"] == 10


def test_engines_whose_kernels_were_chosen_with_tf32_are_not_taken_without_it(product: Path, monkeypatch):
    found = []
    for value in ("1", "0"):
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", value)
        found.append(tensorrt_options(FileGraph(product, []), product, 0))
    assert found[0]["trt_engine_cache_path"] != found[1]["trt_engine_cache_path"]
    assert found[0]["trt_timing_cache_path"] != found[1]["trt_timing_cache_path"]


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
        printed = CliRunner().invoke(main, [command]).output
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
