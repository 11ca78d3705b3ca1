"""NVML: on a machine without the driver the reason; with a GPU the counter itself."""

import inspect
import time

import pytest
from mlbench_power_nvml import meter as module
from mlbench_power_nvml.meter import Nvml

pynvml = pytest.importorskip("pynvml")


def driver_is_here():
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


@pytest.mark.skipif(driver_is_here(), reason="the driver is here")
def test_a_missing_driver_is_the_reason():
    assert Nvml().probe() == "no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded"


def test_the_library_looked_for_is_the_one_that_the_bindings_load():
    assert f'CDLL("{module.LIBRARY}")' in inspect.getsource(pynvml)


def test_missing_bindings_are_the_reason_with_the_install_line(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert Nvml().probe() == "nvidia-ml-py is not installed: pip install 'mlbench-inference[power]'"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nvmlInit", 0),
        ("nvmlShutdown", 0),
        ("nvmlDeviceGetCount", 0),
        ("nvmlDeviceGetHandleByIndex", 1),
        ("nvmlDeviceGetName", 1),
        ("nvmlDeviceGetTotalEnergyConsumption", 1),
    ],
)
def test_what_the_meter_calls_is_there_and_takes_what_it_gives(name, arguments):
    function = getattr(pynvml, name)
    inspect.signature(function).bind(*[None] * arguments)
    assert name in inspect.getsource(module)


def test_a_gpu_without_a_counter_raises_an_error_of_its_own():
    assert issubclass(pynvml.NVMLError_NotSupported, pynvml.NVMLError)


@pytest.mark.gpu
def test_a_gpu_draws_at_least_some_watts():
    meter = Nvml()
    if reason := meter.probe():
        pytest.skip(reason)
    with meter:
        time.sleep(2)
    energy = meter.energy()
    assert energy.parts and all(joules > 2 * 2 for joules in energy.parts.values())
    assert energy.joules == pytest.approx(sum(energy.parts.values()))
