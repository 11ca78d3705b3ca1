"""A backend that runs graphs on x86 CPUs, on their matrix units where they have them."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the CPU backend."""
    from mlbench_cpu_amx.backend import CpuAmx

    return [CpuAmx()]
