"""A backend that runs torch modules on AMD GPUs."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the ROCm backend."""
    from mlbench_rocm.backend import Rocm

    return [Rocm()]
