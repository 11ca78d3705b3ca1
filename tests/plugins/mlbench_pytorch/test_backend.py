import shutil

import numpy as np
import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench import Dim, Precision, TensorSpec, UsageError
from mlbench.toolkit import ModuleGraph, TorchOptions

torch = pytest.importorskip("torch")

BATCH = Dim(name="batch", smallest=1, usual=2, largest=8)


class TellLayout(torch.nn.Module):
    """1 for each image if the images come with their channels innermost in memory, else 0."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        innermost = image.is_contiguous(memory_format=torch.channels_last)
        return torch.full((len(image),), float(innermost))


def layout_graph(layout: str) -> ModuleGraph:
    return ModuleGraph(
        "layout",
        inputs=(TensorSpec(name="image", shape=(BATCH, 3, 4, 4), dtype="float32", layout=layout),),
        outputs=(TensorSpec(name="innermost", shape=(BATCH,), dtype="float32"),),
        build=TellLayout,
        fingerprint="layout",
    )


def backend(**options) -> PyTorch:
    made = PyTorch()
    made.options = TorchOptions(**options)
    return made


@pytest.mark.parametrize(
    ("layout", "channels_last", "innermost"), [("NCHW", True, 1), ("NCHW", False, 0), ("", True, 0)]
)
def test_images_get_their_channels_innermost_where_the_option_and_the_spec_say_so(
    layout: str, channels_last: bool, innermost: float
):
    executable = backend(channels_last=channels_last).compile(layout_graph(layout), Precision.FP32)
    outputs = executable({"image": np.zeros((2, 3, 4, 4), dtype=np.float32)})
    assert list(outputs["innermost"]) == [innermost, innermost]


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "cpu:1", ""])
def test_a_device_that_torch_does_not_have_is_refused_with_those_it_has(device: str):
    with pytest.raises(UsageError, match="cannot use here") as caught:
        backend(device=device).compile(layout_graph("NCHW"), Precision.FP32)
    assert "cpu" in caught.value.hint


def test_without_torch_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mlbench.system.installed.find_distributions", lambda names: {})
    probe = PyTorch().probe()
    assert not probe.is_available
    assert (probe.reason, probe.install) == ("torch is not installed", "pip install 'mlbench-inference[cpu]'")


def test_fp32_is_fp32_where_the_environment_asks_torch_for_tf32():
    """NVIDIA's containers set TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, which makes this the default."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    assert torch.get_float32_matmul_precision() == "high"
    backend().compile(layout_graph("NCHW"), Precision.FP32)
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.allow_tf32


def test_it_observes_the_threads_it_was_set_to_use():
    before = torch.get_num_threads()
    made = backend(device="cpu", threads=1)
    try:
        made.compile(layout_graph("NCHW"), Precision.FP32)
        facts = made.observe()
    finally:
        torch.set_num_threads(before)
    assert (facts.device, facts.extra["threads"]) == ("cpu", 1)


@pytest.mark.thorough("compilers")
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
def test_a_compiled_module_computes_what_the_eager_one_does():
    def build() -> torch.nn.Module:
        torch.manual_seed(2)
        return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU(), torch.nn.Linear(5, 3))

    graph = ModuleGraph(
        "perceptron",
        inputs=(TensorSpec(name="x", shape=(BATCH, 6), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(BATCH, 3), dtype="float32"),),
        build=build,
        fingerprint="seed 2",
    )
    eager = backend(device="cpu").compile(graph, Precision.FP32)
    compiled = backend(device="cpu", compile=True).compile(graph, Precision.FP32)
    for batch in (1, 2, 5):
        inputs = {"x": np.random.default_rng(batch).standard_normal((batch, 6), dtype=np.float32)}
        np.testing.assert_allclose(compiled(inputs)["y"], eager(inputs)["y"], atol=1e-5)
