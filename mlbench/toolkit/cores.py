"""How many threads a backend may keep busy."""

from __future__ import annotations

from mlbench.execution.cores import physical_cores


def cores_each(workers: int) -> int:
    """Return each worker's part of the physical cores that this process may use, by its quota too; 1 at least."""
    return max(1, len(physical_cores()) // workers)
