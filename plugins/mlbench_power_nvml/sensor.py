"""NVML: clocks, temperature, power, use and throttling of each NVIDIA GPU.

Source: NVML API reference, "Device Queries" and "NvmlClocksEventReasons".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Self

from mlbench import Sensor, SensorReading
from mlbench_power_nvml.meter import device_name, find_fault

_REASONS = {
    0x0000000000000004: "power",  # SwPowerCap
    0x0000000000000008: "hardware slowdown",  # HwSlowdown
    0x0000000000000020: "heat",  # SwThermalSlowdown
    0x0000000000000040: "heat",  # HwThermalSlowdown
    0x0000000000000080: "power brake",  # HwPowerBrakeSlowdown
}
"""Bits of the reasons for a lower clock; idleness and clocks that a user set are left out."""


class NvmlSensor(Sensor):
    """Shows each GPU that the driver shows."""

    name = "nvml"
    title = "clocks, temperature, power, memory and throttling of NVIDIA GPUs"

    def probe(self) -> str:
        """Return why the driver's library cannot be used."""
        return find_fault()

    def __enter__(self) -> Self:
        """Open the driver's library, which counts how often."""
        import pynvml

        pynvml.nvmlInit()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        import pynvml

        pynvml.nvmlShutdown()

    def read(self, own: Collection[int]) -> Sequence[SensorReading]:
        """Return the state of each GPU."""
        import pynvml

        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [_read(number, handle, own) for number, handle in enumerate(handles)]


def _read(number: int, device: Any, own: Collection[int]) -> SensorReading:
    import pynvml

    def ask(question: Callable[[], Any]) -> Any:
        """Return the answer; None where this GPU has none."""
        try:
            return question()
        except pynvml.NVMLError:
            return None

    milliwatts = ask(lambda: pynvml.nvmlDeviceGetPowerUsage(device))
    use = ask(lambda: pynvml.nvmlDeviceGetUtilizationRates(device).gpu)
    reasons = ask(lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)) or 0
    received, sent = (
        ask(lambda way=way: pynvml.nvmlDeviceGetPcieThroughput(device, way))  # type: ignore[misc]
        for way in (pynvml.NVML_PCIE_UTIL_RX_BYTES, pynvml.NVML_PCIE_UTIL_TX_BYTES)
    )
    processes = ask(lambda: [each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(device)])
    return SensorReading(
        device=device_name(number, device),
        clock_mhz=ask(lambda: pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM)),
        temperature_c=ask(lambda: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU)),
        power_w=None if milliwatts is None else milliwatts / 1e3,
        busy=None if use is None else use / 100,
        memory_bytes=ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(device).used),
        received_bytes_per_s=None if received is None else 1024 * received,  # in KiB/s
        sent_bytes_per_s=None if sent is None else 1024 * sent,
        throttled_by=tuple(dict.fromkeys(reason for bit, reason in _REASONS.items() if reasons & bit)),
        strangers=None if processes is None else len(set(processes) - set(own)),
    )
