"""What runs to come will take, by earlier runs of the same kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCost:
    """Of all of them together."""

    runs: int
    unknown_runs: int
    """Runs of a kind that was never made here; of them only the least duration is counted."""
    seconds: float
    disk_bytes: int
    """Of the run folders."""
    peak_memory_bytes: int | None
    """Of the largest; None where no earlier run says."""
