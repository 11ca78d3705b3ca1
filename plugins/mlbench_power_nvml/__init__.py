"""Energy counters and state of NVIDIA GPUs, read through their driver's library."""

from __future__ import annotations

from mlbench import PowerMeter, Sensor, hookimpl


@hookimpl
def mlbench_power_meters() -> list[PowerMeter]:
    """Return the NVML meter."""
    from mlbench_power_nvml.meter import Nvml

    return [Nvml()]


@hookimpl
def mlbench_sensors() -> list[Sensor]:
    """Return the sensor of the GPUs."""
    from mlbench_power_nvml.sensor import NvmlSensor

    return [NvmlSensor()]
