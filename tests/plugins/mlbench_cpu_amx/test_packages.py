import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from mlbench_cpu_amx.backend import CpuAmx
from mlbench_cpu_amx.instruction_sets import list_available
from mlbench_cpu_amx.options import CpuAmxOptions

from mlbench import Dim, Precision, TensorSpec
from mlbench.toolkit import ModuleGraph, machine_flags
from mlbench.wire.runtime_facts import runtime_to_json

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.thorough("compilers"),  # for seconds each
    pytest.mark.skipif(not CpuAmx().probe().is_available, reason=f"cpu_amx: {CpuAmx().probe().reason}"),
]

WIDTH = 256


def doubling_graph() -> ModuleGraph:
    """y = 2 x, as a matrix product large enough for oneDNN."""

    def build() -> torch.nn.Module:
        layer = torch.nn.Linear(WIDTH, WIDTH)
        layer.weight.data, layer.bias.data = 2 * torch.eye(WIDTH), torch.zeros(WIDTH)
        return layer

    batch = Dim(name="batch", smallest=1, usual=32, largest=65536)
    return ModuleGraph(
        "doubling",
        inputs=(TensorSpec(name="x", shape=(batch, WIDTH), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(batch, WIDTH), dtype="float32"),),
        build=build,
        fingerprint="2 x",
        calibrate=lambda: iter([{"x": ramp(64)}]),
    )


def ramp(rows: int) -> np.ndarray:
    """Return numbers from -1 to 1."""
    return np.linspace(-1, 1, rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)


def compiled(precision: Precision):
    backend = CpuAmx().with_options(CpuAmxOptions(threads=1))
    if precision not in backend.probe().precisions:
        pytest.skip(f"cpu_amx does not offer {precision} here")
    return backend, backend.compile(doubling_graph(), precision)


# the products are exact but for rounding: 8 bits of mantissa in bf16, 255 steps from -1 to 1 and back in int8
@pytest.mark.parametrize(
    ("precision", "error"), [(Precision.FP32, 1e-6), (Precision.BF16, 2 * 2**-8), (Precision.INT8, 2 * 1.1 / 127)]
)
def test_one_package_serves_all_sizes(precision: Precision, error: float):
    backend, double = compiled(precision)
    for rows in (1, 3, 300):
        np.testing.assert_allclose(double({"x": ramp(rows)})["y"], 2 * ramp(rows), atol=error)
    assert json.dumps(runtime_to_json(backend.observe()))


def test_a_package_is_compiled_once(monkeypatch):
    _, double = compiled(Precision.FP32)
    monkeypatch.setattr("torch._inductor.aoti_compile_and_package", None)
    _, again = compiled(Precision.FP32)
    np.testing.assert_array_equal(again({"x": ramp(2)})["y"], double({"x": ramp(2)})["y"])


@pytest.mark.parametrize("x", [ramp(2)[:, :8], ramp(2)[0], ramp(2).astype(np.float64)], ids=["width", "rank", "dtype"])
def test_an_input_of_another_shape_or_type_is_an_error_and_not_a_crash(x: np.ndarray):
    _, double = compiled(Precision.FP32)
    with pytest.raises(ValueError, match=r"x is float\d\d of shape .*, which the graph does not accept"):
        double({"x": x})


def test_other_threads_run_during_a_call():
    _, double = compiled(Precision.FP32)
    x, ticks, over = ramp(65536), [0], threading.Event()
    double({"x": x})  # the first call lets go of the lock anyway, to read what oneDNN prints

    def tick() -> None:
        while not over.wait(1e-4):
            ticks[0] += 1

    interval = sys.getswitchinterval()
    other = threading.Thread(target=tick)
    other.start()
    sys.setswitchinterval(1000)  # from now on a thread gets Python's lock only when the other lets go of it
    try:
        before = ticks[0]
        double({"x": x})
        during = ticks[0] - before
    finally:
        sys.setswitchinterval(interval)
        over.set()
        other.join()
    assert during > 10


# oneDNN chooses once per process
KERNELS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_packages import CpuAmx, CpuAmxOptions, Precision, doubling_graph, ramp, runtime_to_json
backend = CpuAmx().with_options(CpuAmxOptions(threads=1, isa=sys.argv[2]))
backend.compile(doubling_graph(), Precision(sys.argv[3]))({"x": ramp(512)})
print(json.dumps(runtime_to_json(backend.observe())))
"""


@pytest.mark.skipif(list_available(machine_flags())[:1] != ["amx"], reason="needs a CPU with AMX")
@pytest.mark.parametrize("precision", [Precision.BF16, Precision.INT8])
@pytest.mark.parametrize(("isa", "is_amx"), [("amx", True), ("avx512", False)])
def test_the_kernels_that_ran_are_of_the_instruction_set_asked_for(isa: str, is_amx: bool, precision: Precision):
    if precision not in CpuAmx().probe().precisions:
        pytest.skip(f"cpu_amx does not offer {precision} here")
    command = [sys.executable, "-c", KERNELS, os.path.dirname(__file__), isa, precision]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    facts = json.loads(ran.stdout.splitlines()[-1])
    (kernel,) = facts["kernels"]["doubling"]
    assert ("amx" in kernel) is is_amx
    assert ("AMX" in facts["onednn_isa"]) is is_amx
    assert facts["isa"] == isa
