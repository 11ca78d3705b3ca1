"""The energy counters of NVIDIA GPUs, read through their driver's library."""

from __future__ import annotations

from mlbench import PowerMeter, hookimpl


@hookimpl
def mlbench_power_meters() -> list[PowerMeter]:
    """Return the NVML meter."""
    from mlbench_power_nvml.meter import Nvml

    return [Nvml()]
