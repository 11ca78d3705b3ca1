"""NVML's sensor: its calls are the bindings', and on a GPU it shows the clock and the memory."""

import inspect
import os

import pytest
from mlbench_power_nvml import sensor as module
from mlbench_power_nvml.sensor import NvmlSensor

pynvml = pytest.importorskip("pynvml")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nvmlDeviceGetClockInfo", 2),
        ("nvmlDeviceGetTemperature", 2),
        ("nvmlDeviceGetPowerUsage", 1),
        ("nvmlDeviceGetUtilizationRates", 1),
        ("nvmlDeviceGetMemoryInfo", 1),
        ("nvmlDeviceGetPcieThroughput", 2),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", 1),
        ("nvmlDeviceGetComputeRunningProcesses", 1),
    ],
)
def test_its_calls_are_there_and_take_what_it_gives(name, arguments):
    inspect.signature(getattr(pynvml, name)).bind(*[None] * arguments)
    assert f"pynvml.{name}(" in inspect.getsource(module)


def test_the_bits_of_the_reasons_are_those_of_the_bindings():
    reasons = {
        pynvml.nvmlClocksEventReasonSwPowerCap: "power",
        pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
        pynvml.nvmlClocksEventReasonSwThermalSlowdown: "heat",
        pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "heat",
        pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power brake",
    }
    assert reasons == module._REASONS


@pytest.mark.gpu
def test_a_gpu_shows_its_clock_its_memory_and_no_stranger_but_this_process():
    if reason := NvmlSensor().probe():
        pytest.skip(reason)
    with NvmlSensor() as sensor:
        readings = sensor.read(own=[os.getpid()])
    assert readings and all(each.clock_mhz > 100 and each.memory_bytes > 0 for each in readings)
