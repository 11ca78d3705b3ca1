"""A backend that runs torch modules on AMD GPUs, and a sensor of their state."""

from __future__ import annotations

from mlbench import Backend, Sensor, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the ROCm backend."""
    from mlbench_rocm.backend import Rocm

    return [Rocm()]


@hookimpl
def mlbench_sensors() -> list[Sensor]:
    """Return the sensor of the GPUs."""
    from mlbench_rocm.sensor import AmdSmiSensor

    return [AmdSmiSensor()]
