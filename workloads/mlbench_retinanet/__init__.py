"""RetinaNet with a ResNeXt-50 body, object detection."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_retinanet.workload import RetinaNet

__all__ = ["RetinaNet"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [RetinaNet()]
