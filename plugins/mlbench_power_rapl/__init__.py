"""Intel's and AMD's energy counters of processor and memory, read through Linux's powercap."""

from __future__ import annotations

from mlbench import PowerMeter, hookimpl


@hookimpl
def mlbench_power_meters() -> list[PowerMeter]:
    """Return the RAPL meter."""
    from mlbench_power_rapl.meter import Rapl

    return [Rapl()]
