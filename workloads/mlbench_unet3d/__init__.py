"""3D-UNet, kidney tumour segmentation."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_unet3d.workload import UNet3D

__all__ = ["UNet3D"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [UNet3D()]
