"""A line on what a suite will cost."""

from __future__ import annotations

from mlbench.records.expected_cost import ExpectedCost
from mlbench.reports.units import clock


def preflight(cost: ExpectedCost, *, done: int) -> str:
    """Return the cost of the runs to come, and what the estimate rests on."""
    if not cost.runs:
        return f"All {done} runs exist already; --fresh makes them again."
    parts = [f"{cost.runs} runs to make" + (f", {done} are there" if done else "")]
    least = "at least " if cost.unknown_runs else "about "
    parts.append(f"{least}{clock(cost.seconds)} minutes")
    if cost.disk_bytes:
        parts.append(f"about {cost.disk_bytes / 1e6:,.1f} MB of disk")
    if cost.peak_memory_bytes:
        parts.append(f"up to {cost.peak_memory_bytes / 2**30:.1f} GiB of memory in earlier runs")
    known = cost.runs - cost.unknown_runs
    basis = f"from earlier runs like {known} of them" if known else "without an earlier run like them"
    return f"{'; '.join(parts)} ({basis})."
