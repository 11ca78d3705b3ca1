"""The lines before a replay starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlbench.reports.units import rough_time

if TYPE_CHECKING:
    from mlbench.planning.replay import ReplayPlan
    from mlbench.records.origin_record import ReplayRecord


def plan_lines(plan: ReplayPlan) -> Iterator[str]:
    """Yield the run to repeat, and the differences in machine and versions."""
    record = plan.record
    what = f"{record.workload} {record.backend} {record.scenario}, {record.profile}, {record.precision_and_transform}"
    took = f", {rough_time(record.duration_ns / 1e9)} then" if record.duration_ns else ""
    yield f"Replay of {record.run_id}: {what}, tier {record.tier}{took}."
    if plan.replay.chosen:
        yield f"  Reused: {chosen_text(plan.replay)}."
    yield from (f"  {each}." for each in (*plan.machine, *plan.software))
    if not plan.machine and not plan.software:
        yield "  Same machine, same versions."


def chosen_text(replay: ReplayRecord) -> str:
    """Return the values that the repeated run chose by measuring: ``execution.batch 8``."""
    return ", ".join(f"{key} {value:g}" for key, value in replay.chosen.items())
