"""GPT-J 6B, summarisation."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Workload, hookimpl
from mlbench_gptj.workload import GptJ

__all__ = ["GptJ"]


@hookimpl
def mlbench_workloads() -> Sequence[Workload]:
    """Return the one workload of this package."""
    return [GptJ()]
