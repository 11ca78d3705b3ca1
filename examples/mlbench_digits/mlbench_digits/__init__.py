"""Handwritten digits as a workload of mlbench."""

from mlbench import Workload, hookimpl
from mlbench_digits.workload import Digits


@hookimpl
def mlbench_workloads() -> list[Workload]:
    """Return the one workload of this package."""
    return [Digits()]
