from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mlbench_cpu_amx import backend as module
from mlbench_cpu_amx.allocator import find_allocator
from mlbench_cpu_amx.backend import CpuAmx
from mlbench_cpu_amx.options import CpuAmxOptions

from mlbench import Dim, GraphError, Precision, TensorSpec, UsageError
from mlbench.toolkit import ModuleGraph

torch = pytest.importorskip("torch")

AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
AMX = AVX512 | {"avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"}


def cpu_amx(**options) -> CpuAmx:
    return CpuAmx().with_options(CpuAmxOptions(threads=1, **options))


def graph(build, calibration=()) -> ModuleGraph:
    batch = Dim(name="batch", smallest=1, usual=4, largest=64)
    return ModuleGraph(
        "small",
        inputs=(TensorSpec(name="x", shape=(batch, 8), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(batch, 8), dtype="float32"),),
        build=build,
        fingerprint="small",
        calibrate=lambda: ({"x": array} for array in calibration),
    )


@pytest.fixture
def machine(monkeypatch):
    def has(flags, distributions=("torch", "torchao"), compiler=True):
        one = SimpleNamespace(read_text=lambda file: "Version: 1.0\n")
        monkeypatch.setattr(module, "machine_flags", lambda: flags)
        monkeypatch.setattr(module, "has_cxx", lambda: compiler)
        monkeypatch.setattr(
            "mlbench.system.installed.find_distributions",
            lambda asked: {name: one for name in asked if name in distributions},
        )
        return CpuAmx().probe()

    return has


def test_bf16_comes_first_where_the_cpu_multiplies_it(machine):
    probe = machine(AMX)
    assert probe.precisions == (Precision.BF16, Precision.FP32, Precision.INT8)
    assert probe.devices == ("amx", "avx512", "avx2")


def test_bf16_is_not_offered_where_the_cpu_lacks_it(machine):
    assert machine(AVX512).precisions == (Precision.FP32, Precision.INT8)


def test_int8_needs_torchao(machine):
    assert machine(AMX, distributions=("torch",)).precisions == (Precision.BF16, Precision.FP32)


@pytest.mark.parametrize(
    ("run_conditions", "reason"),
    [
        ({"flags": frozenset()}, "no x86 CPU with AVX2 here"),
        ({"flags": AMX, "distributions": ()}, "torch is not installed"),
        ({"flags": AMX, "compiler": False}, "no C++ compiler (g++)"),
    ],
)
def test_the_probe_says_what_is_missing(machine, monkeypatch, run_conditions, reason):
    monkeypatch.delenv("CXX", raising=False)
    probe = machine(**run_conditions)
    assert not probe.is_available
    assert probe.reason == reason
    assert probe.install


def test_an_instruction_set_that_the_cpu_lacks_is_refused(monkeypatch):
    monkeypatch.setattr(module, "machine_flags", lambda: AVX512)
    with pytest.raises(UsageError, match=r"backend\.isa is 'amx', and this CPU lacks amx_bf16"):
        cpu_amx(isa="amx").compile(graph(torch.nn.Identity), Precision.FP32)


def test_bf16_within_avx2_is_refused(monkeypatch):
    monkeypatch.setattr(module, "machine_flags", lambda: AMX)
    with pytest.raises(UsageError, match=r"does not offer bf16 on this CPU with backend\.isa=avx2"):
        cpu_amx(isa="avx2").compile(graph(torch.nn.Identity), Precision.BF16)


def test_int8_without_calibration_inputs_is_refused(monkeypatch):
    pytest.importorskip("torchao")
    monkeypatch.setattr(module, "machine_flags", lambda: AMX)
    with pytest.raises(GraphError, match="graph small has no calibration inputs: int8 needs them"):
        cpu_amx().compile(graph(torch.nn.Identity), Precision.INT8)


def test_int8_of_what_the_quantiser_does_not_know_is_refused(monkeypatch, tmp_path):
    pytest.importorskip("torchao")
    monkeypatch.setattr(module, "machine_flags", lambda: AMX)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    calibrated = graph(torch.nn.ReLU, [np.ones((4, 8), np.float32)])
    with pytest.raises(GraphError, match="graph small has no operator that torchao quantises on x86"):
        cpu_amx().compile(calibrated, Precision.INT8)
    assert not any((tmp_path / "cpu_amx").iterdir())


def test_int8_of_a_graph_with_state_is_refused(monkeypatch):
    monkeypatch.setattr(module, "machine_flags", lambda: AMX)
    stateful = graph(torch.nn.Identity)
    stateful.state = (TensorSpec(name="kept", shape=(4, 8), dtype="float32"),)
    with pytest.raises(
        GraphError, match="small has state, so its ranges are not known beforehand, and int8 needs them"
    ):
        cpu_amx().compile(stateful, Precision.INT8)


@pytest.mark.parametrize(
    ("line", "allocator"),
    [
        ("7f21 r-xp 0 08:01 12 /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.9", "tcmalloc"),
        ("7f21 r-xp 0 08:01 12 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc"),
        ("7f21 r-xp 0 08:01 12 /usr/lib/x86_64-linux-gnu/libc.so.6", "libc"),
    ],
)
def test_a_preloaded_allocator_is_recognised_by_the_mapped_files(tmp_path: Path, line: str, allocator: str):
    (tmp_path / "maps").write_text(f"5581 r--p 0 08:01 11 /usr/bin/python3.11\n{line}\n")
    assert find_allocator(tmp_path / "maps") == allocator
