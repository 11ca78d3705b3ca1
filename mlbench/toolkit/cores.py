"""The number of threads that a backend may keep busy."""

from __future__ import annotations

from mlbench.execution.cores import physical_cores


def cores_each(workers: int) -> int:
    """Return each worker's share of the physical cores of this process, within its quota; at least 1."""
    return max(1, len(physical_cores()) // workers)
