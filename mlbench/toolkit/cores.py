"""How many threads a backend may keep busy."""

from __future__ import annotations

import os


def cores_each(workers: int) -> int:
    """Return each worker's part of the physical cores that this process may use, 1 at least."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or allowed, allowed) // workers)
