"""DLRMv2, click prediction."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_dlrm_v2.workload import DlrmV2

__all__ = ["DlrmV2"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [DlrmV2()]
