"""Stable Diffusion XL, text to image."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Transform, Workload, hookimpl
from mlbench_stable_diffusion_xl.workload import StableDiffusionXL

__all__ = ["StableDiffusionXL"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [StableDiffusionXL()]


@hookimpl
def mlbench_transforms() -> Sequence[Transform]:
    """Return the transform of this model alone."""
    from mlbench_stable_diffusion_xl.deep_cache import DeepCache

    return [DeepCache()]
