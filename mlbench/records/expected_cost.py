"""Estimated cost of the coming runs, from earlier runs of the same kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCost:
    """The time of all runs together."""

    runs: int
    unknown_runs: int
    """Runs without an earlier one of the same kind; only their minimum duration is counted."""
    seconds: float
    disk_bytes: int
    """Size of the run folders."""
    peak_memory_bytes: int | None
    """Peak memory of the largest run; None where no earlier run says."""
