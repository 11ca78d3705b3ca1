"""Mixtral 8x7B, conversation, sums and programs."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_mixtral_8x7b.workload import Mixtral

__all__ = ["Mixtral"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [Mixtral()]
