"""TensorRT's and CUDA's providers: their options, and the precision of fp32; their sessions are not started here."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mlbench_onnxruntime.products import measure_bits, product_model
from mlbench_onnxruntime.providers import Place
from mlbench_onnxruntime.tensorrt_options import profile_options, tensorrt_options
from product_graph import FileGraph, backend

from mlbench import Precision, UsageError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


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
