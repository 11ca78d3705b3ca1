"""Llama 3.1 8B, summarisation."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_llama3_1_8b.workload import Llama31, Llama31Edge

__all__ = ["Llama31", "Llama31Edge"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the workload and its edge variant."""
    return [Llama31(), Llama31Edge()]
