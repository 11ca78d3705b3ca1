"""Stable Diffusion XL, text to image."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_stable_diffusion_xl.workload import StableDiffusionXL

__all__ = ["StableDiffusionXL"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [StableDiffusionXL()]
