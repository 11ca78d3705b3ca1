"""What the contract asks of every graph backend, asked of the built-in ones."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_openvino.backend import OpenVino
from mlbench_pytorch.backend import PyTorch

from mlbench import Dim, GraphBackend, Precision, TensorSpec, UsageError
from mlbench.toolkit import ModuleGraph, TorchOptions, host_array

pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.slow  # ONNX Runtime needs exports, which take seconds

BATCH = Dim(name="batch", smallest=1, usual=8, largest=64)
LENGTH = Dim(name="length", smallest=1, usual=8, largest=64)

OFFERED = [
    (PyTorch, Precision.FP32),
    (PyTorch, Precision.BF16),
    (PyTorch, Precision.FP16),
    (OnnxRuntime, Precision.FP32),
    (OnnxRuntime, Precision.FP16),
    (OnnxRuntime, Precision.INT8),
    (OpenVino, Precision.FP32),
    (OpenVino, Precision.INT8),
]


class WordMixer(torch.nn.Module):
    """Embeds ids, lets every position look at all others; (B, L) -> (B, L, 2) and (B,)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.head = torch.nn.Linear(16, 2)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        words = self.words(ids)
        scores = self.head(torch.softmax(words @ words.transpose(1, 2), dim=-1) @ words)
        return scores, scores.argmax(dim=1)[:, 0]


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return module


def perceptron() -> torch.nn.Module:
    return seeded(torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)))


def convolution() -> torch.nn.Module:
    return seeded(
        torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1)
        )
    )


def word_mixer() -> torch.nn.Module:
    return seeded(WordMixer())


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def words(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 50, shape)


def graph(name: str) -> ModuleGraph:
    return {"perceptron": perceptron_graph, "convolution": convolution_graph, "mixer": mixer_graph}[name]()


def perceptron_graph() -> ModuleGraph:
    return ModuleGraph(
        "perceptron",
        inputs=(TensorSpec(name="x", shape=(BATCH, 12), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(BATCH, 4), dtype="float32"),),
        build=perceptron,
        fingerprint="perceptron seed 5",
        calibrate=lambda: ({"x": floats(16, 12, seed=seed)} for seed in range(4)),
    )


def convolution_graph() -> ModuleGraph:
    return ModuleGraph(
        "convolution",
        inputs=(TensorSpec(name="image", shape=(BATCH, 3, 10, 10), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name="maps", shape=(BATCH, 4, 10, 10), dtype="float32"),),
        build=convolution,
        fingerprint="convolution seed 5",
        calibrate=lambda: ({"image": floats(4, 3, 10, 10, seed=seed)} for seed in range(4)),
    )


def mixer_graph() -> ModuleGraph:
    return ModuleGraph(
        "mixer",
        inputs=(TensorSpec(name="ids", shape=(BATCH, LENGTH), dtype="int64"),),
        outputs=(
            TensorSpec(name="scores", shape=(BATCH, LENGTH, 2), dtype="float32"),
            TensorSpec(name="best", shape=(BATCH,), dtype="int64"),
        ),
        build=word_mixer,
        fingerprint="mixer seed 5",
        # the fewer words, the less they average out: ranges must come from all lengths
        calibrate=lambda: ({"ids": words(16, length)} for length in (1, 2, 5, 20)),
    )


MORE = pytest.mark.thorough("exports")
CASES = [
    ("perceptron", {"x": floats(1, 12)}),
    ("perceptron", {"x": floats(13, 12)}),
    pytest.param("convolution", {"image": floats(1, 3, 10, 10)}, marks=MORE),
    pytest.param("convolution", {"image": floats(6, 3, 10, 10)}, marks=MORE),
    pytest.param("mixer", {"ids": words(1, 1)}, marks=MORE),
    # attention to one word is exactly 1, where integer softmax may overflow
    pytest.param("mixer", {"ids": words(64, 1)}, marks=MORE),
    pytest.param("mixer", {"ids": words(3, 17)}, marks=MORE),
    pytest.param("mixer", {"ids": words(17, 3)}, marks=MORE),
]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def single_threaded(kind: type[GraphBackend]) -> GraphBackend:
    backend = kind()
    backend.options = replace(backend.options, threads=1)
    return backend


def expected_of(name: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    made = graph(name)
    with torch.inference_mode():
        returned = made.module()(*(torch.from_numpy(inputs[spec.name]) for spec in made.inputs))
    tensors = (returned,) if isinstance(returned, torch.Tensor) else returned
    return {spec.name: tensor.numpy() for spec, tensor in zip(made.outputs, tensors, strict=True)}


@pytest.mark.parametrize(("kind", "precision"), OFFERED)
@pytest.mark.parametrize(("name", "inputs"), CASES)
def test_it_computes_what_the_module_does_within_the_tolerance_at_every_shape(
    kind: type[GraphBackend], precision: Precision, name: str, inputs: Mapping[str, np.ndarray]
):
    made = graph(name)
    outputs = single_threaded(kind).compile(made, precision)(inputs)
    tolerance = made.tolerance(precision)
    expected = expected_of(name, inputs)
    assert list(outputs) == [spec.name for spec in made.outputs]
    for spec in made.outputs:
        found = host_array(outputs[spec.name])
        assert found.dtype == spec.dtype
        assert found.shape == expected[spec.name].shape
        if spec.dtype == "float32":  # the best of nearly equal scores is not within anybody's tolerance
            np.testing.assert_allclose(
                found, expected[spec.name], atol=tolerance.absolute, rtol=tolerance.relative, err_msg=spec.name
            )


@pytest.mark.parametrize(
    ("kind", "precision"), [(PyTorch, Precision.BF16), (OnnxRuntime, Precision.INT8), (OpenVino, Precision.INT8)]
)
def test_a_lower_precision_is_really_computed_in(kind: type[GraphBackend], precision: Precision):
    inputs = {"x": floats(64, 12)}
    outputs = single_threaded(kind).compile(graph("perceptron"), precision)(inputs)
    assert np.abs(host_array(outputs["y"]) - expected_of("perceptron", inputs)["y"]).max() > 1e-4


@pytest.mark.parametrize("kind", [PyTorch, OnnxRuntime, OpenVino])
def test_outputs_stay_unchanged_by_later_calls_and_inputs_by_any(kind: type[GraphBackend]):
    executable = single_threaded(kind).compile(graph("perceptron"), Precision.FP32)
    inputs = floats(5, 12)
    kept = inputs.copy()
    first = host_array(executable({"x": inputs})["y"])
    copy = first.copy()
    executable({"x": floats(5, 12, seed=9)})
    np.testing.assert_array_equal(first, copy)
    np.testing.assert_array_equal(inputs, kept)


@pytest.mark.parametrize("kind", [PyTorch, OnnxRuntime, OpenVino])
def test_inputs_may_be_read_only_or_strided(kind: type[GraphBackend]):
    executable = single_threaded(kind).compile(graph("perceptron"), Precision.FP32)
    plain = floats(4, 12)
    read_only = plain.copy()
    read_only.flags.writeable = False
    for odd in (read_only, np.asfortranarray(plain), np.repeat(plain, 2, axis=0)[::2]):
        np.testing.assert_array_equal(
            host_array(executable({"x": odd})["y"]), host_array(executable({"x": plain})["y"])
        )


@pytest.mark.parametrize(
    ("kind", "precision"), [(PyTorch, Precision.INT8), (OnnxRuntime, Precision.BF16), (OpenVino, Precision.FP16)]
)
def test_a_precision_that_is_not_offered_is_refused(kind: type[GraphBackend], precision: Precision):
    with pytest.raises(UsageError, match=f"does not offer {precision}"):
        kind().compile(graph("perceptron"), precision)


def test_probing_loads_no_runtime():
    script = (
        "import sys, mlbench_cpu_amx, mlbench_null, mlbench_onnxruntime, mlbench_openvino, mlbench_pytorch\n"
        "for plugin in (mlbench_cpu_amx, mlbench_null, mlbench_onnxruntime, mlbench_openvino, mlbench_pytorch):\n"
        "    probes = [backend.probe() for backend in plugin.mlbench_backends()]\n"
        "    assert all(probe.is_available or probe.reason for probe in probes)\n"
        "print([name for name in ('numpy', 'torch', 'onnx', 'onnxruntime', 'openvino') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.usefixtures("no_quota")
@pytest.mark.parametrize("kind", [PyTorch, OnnxRuntime, OpenVino])
def test_threads_are_the_workers_part_of_the_cores_unless_set_by_the_user(kind, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert kind().for_workers(2).options.threads == 4
    told = kind()
    told.options = replace(told.options, threads=3)
    assert told.for_workers(2).options.threads == 3


@pytest.mark.parametrize("backend", [PyTorch().with_options(TorchOptions(device="cpu")), OnnxRuntime(), OpenVino()])
def test_instances_on_a_cpu_have_the_backend_as_it_is_for_they_have_cores_of_their_own(backend):
    assert backend.instance(1, 2).options == backend.options
