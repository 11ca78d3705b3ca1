"""Llama 2 70B, conversation."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_llama2_70b.workload import Llama2

__all__ = ["Llama2"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [Llama2()]
