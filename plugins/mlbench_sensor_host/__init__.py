"""The processors and the memory of this machine, as its kernel shows them."""

from __future__ import annotations

from mlbench import Sensor, hookimpl


@hookimpl
def mlbench_sensors() -> list[Sensor]:
    """Return the sensor of the host."""
    from mlbench_sensor_host.sensor import Host

    return [Host()]
