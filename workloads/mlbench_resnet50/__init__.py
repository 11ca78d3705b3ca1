"""ResNet-50 v1.5, image classification."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_resnet50.workload import ResNet50

__all__ = ["ResNet50"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [ResNet50()]
