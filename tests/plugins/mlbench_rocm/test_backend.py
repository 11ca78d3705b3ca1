import importlib.metadata
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from mlbench_rocm import backend as module
from mlbench_rocm.backend import Rocm
from mlbench_rocm.devices import architectures, hip_version, obstacles
from mlbench_rocm.options import RocmOptions

from mlbench import Dim, Precision, TensorSpec, UsageError
from mlbench.toolkit import ModuleGraph

torch = pytest.importorskip("torch")

# the lines of a machine with a CPU, an MI300X and an MI250X, as their drivers print them
NODES = {
    "0": "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n",
    "1": "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\ndrm_render_minor 128\n",
    "10": "cpu_cores_count 0\nsimd_count 440\ngfx_target_version 90010\n",
}


@pytest.fixture
def amd_machine(tmp_path: Path) -> Path:
    for node, properties in NODES.items():
        folder = tmp_path / "sys/class/kfd/kfd/topology/nodes" / node
        folder.mkdir(parents=True)
        (folder / "properties").write_text(properties)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    return tmp_path


def product_graph() -> ModuleGraph:
    def build() -> torch.nn.Module:
        layer = torch.nn.Linear(2, 1, bias=False)
        layer.weight.data = torch.tensor([[2.0, 3.0]])
        return layer

    batch = Dim(name="batch", smallest=1, usual=2, largest=8)
    return ModuleGraph(
        "product",
        inputs=(TensorSpec(name="x", shape=(batch, 2), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(batch, 1), dtype="float32"),),
        build=build,
        fingerprint="2 3",
    )


def rocm(**options) -> Rocm:
    return Rocm().with_options(RocmOptions(**options))


def test_gpus_are_distinguished_from_cpus_and_spelled_as_compilers_spell_them(amd_machine):
    assert architectures(amd_machine) == ["gfx942", "gfx90a"]
    assert list(obstacles(amd_machine)) == []


def test_a_machine_without_the_driver_has_no_gpu(tmp_path):
    assert architectures(tmp_path) == []
    assert list(obstacles(tmp_path)) == ["no AMD GPU here (no /dev/kfd)"]


def test_a_driver_that_one_may_not_use_is_an_obstacle(amd_machine, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may do anything
    assert list(obstacles(amd_machine)) == ["no permission for /dev/kfd (join the groups render and video)"]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("hip: Optional[str] = '7.0.51831-a3e329ad8'", "7.0.51831-a3e329ad8"),
        ("hip: Optional[str] = None", ""),
    ],
)
def test_what_torch_was_built_for_is_read_from_its_source(tmp_path, monkeypatch, line, version):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/version.py").write_text(f"__version__ = '2.9.0'\n{line}\nrocm: Optional[str] = None\n")
    spec = importlib.util.spec_from_file_location("torch", tmp_path / "torch/__init__.py")
    monkeypatch.setattr("mlbench_rocm.devices.find_spec", lambda name: spec)
    assert hip_version() == version


def test_the_probe_names_all_that_is_missing_and_what_to_do(monkeypatch):
    monkeypatch.setattr(module, "obstacles", lambda: iter(["no AMD GPU here"]))
    monkeypatch.setattr(module, "hip_version", lambda: "")
    monkeypatch.setattr(module, "find_versions", lambda name: {name: "2.9.0+cu130"})
    probe = Rocm().probe()
    assert (probe.is_available, probe.reason) == (
        False,
        "no AMD GPU here and torch 2.9.0+cu130 is not built for ROCm",
    )
    assert "pytorch.org" in probe.install


def test_the_probe_lists_the_gpus_by_architecture(monkeypatch, amd_machine):
    monkeypatch.setattr(module, "obstacles", lambda: iter([]))
    monkeypatch.setattr(module, "hip_version", lambda: "7.0.5")
    monkeypatch.setattr(module, "architectures", lambda: architectures(amd_machine))
    probe = Rocm().probe()
    assert probe.is_available
    assert probe.devices == ("gfx942", "gfx90a")
    assert probe.versions["hip"] == "7.0.5"


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16])
def test_the_path_that_it_shares_with_pytorch_computes_on_the_cpu(precision):
    executable = rocm(device="cpu", threads=1).compile(product_graph(), precision)
    assert executable({"x": np.array([[1, 1], [0, 2]], np.float32)})["y"].tolist() == [[5], [6]]


@pytest.mark.skipif(torch.version.hip is not None, reason="torch is built for ROCm")
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:7"])
def test_without_an_amd_gpu_it_refuses_and_does_not_take_the_cpu(device):
    with pytest.raises(UsageError, match=f"backend.device is '{device}'"):
        rocm(device=device).compile(product_graph(), Precision.FP32)


@pytest.fixture
def torch_as_it_was():
    cuda = torch.backends.cuda
    before = cuda.preferred_blas_library(), cuda.preferred_rocm_fa_library(), torch.cuda.tunable.is_enabled()
    yield
    cuda.preferred_blas_library(before[0])
    cuda.preferred_rocm_fa_library(before[1])
    torch.cuda.tunable.enable(before[2])


@pytest.mark.usefixtures("torch_as_it_was")
def test_the_chosen_libraries_are_what_torch_then_prefers():
    made = rocm(device="cpu", matrix_library="hipblaslt", attention_library="ck", tune=True)
    made.choose_libraries()
    facts = made.observe().extra
    assert (facts["matrix_library"], facts["attention_library"], facts["tune"]) == ("Cublaslt", "Ck", True)


@pytest.mark.gpu
@pytest.mark.skipif(torch.version.hip is None or not torch.cuda.is_available(), reason="needs an AMD GPU")
def test_on_an_amd_gpu_it_computes_there():
    made = rocm()
    assert made.device().type == "cuda"
    assert made.compile(product_graph(), Precision.FP32)({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[5]]
