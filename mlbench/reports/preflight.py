"""What a suite will take, in a line."""

from __future__ import annotations

from typing import Protocol

from mlbench.reports.units import clock


class Cost(Protocol):
    """What is known of the runs to come."""

    @property
    def runs(self) -> int:
        """How many."""

    @property
    def unknown_runs(self) -> int:
        """Of a kind never made here."""

    @property
    def seconds(self) -> float:
        """All together."""

    @property
    def disk_bytes(self) -> int:
        """Of the run folders."""

    @property
    def peak_memory_bytes(self) -> int | None:
        """Of the largest run seen."""


def preflight(cost: Cost, *, done: int) -> str:
    """Return the cost of the runs to come, and what the estimate rests on."""
    if not cost.runs:
        return f"All {done} runs are there; --fresh makes them again."
    parts = [f"{cost.runs} runs to make" + (f", {done} are there" if done else "")]
    least = "at least " if cost.unknown_runs else "about "
    parts.append(f"{least}{clock(cost.seconds)} minutes")
    if cost.disk_bytes:
        parts.append(f"about {cost.disk_bytes / 1e6:,.1f} MB of disk")
    if cost.peak_memory_bytes:
        parts.append(f"up to {cost.peak_memory_bytes / 2**30:.1f} GiB of memory in earlier runs")
    known = cost.runs - cost.unknown_runs
    basis = f"from earlier runs like {known} of them" if known else "no run like them was made here yet"
    return f"{'; '.join(parts)} ({basis})."
