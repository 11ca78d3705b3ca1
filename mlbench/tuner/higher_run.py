"""A run that was valid at a higher rate than a search found to be sustained."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench.comparison.comparability import differences
from mlbench.records.facts import ENDS_INVALID_RUNS
from mlbench.records.run_record import RunRecord
from mlbench.running.turns import why_not_again
from mlbench.tuner.tune_plan import SEARCHED

_MAY_DIFFER = (SEARCHED, *ENDS_INVALID_RUNS)


def highest_run_above(shown: RunRecord, others: Sequence[RunRecord]) -> RunRecord | None:
    """Return the run at the highest rate above that of a run that shows the sustained rate; None if there is none.

    Args:
        shown: a full run at the rate that was found.
        others: stored runs. Only those count that are valid, do not miss their accuracy target, and differ in nothing
            but the rate: conditions, settings, machine and software.
    """
    higher = [each for each in others if _rate(each) > _rate(shown) and _is_alike(each, shown)]
    return max(higher, key=_rate, default=None)


def _rate(record: RunRecord) -> float:
    return record.arrivals_per_s or 0.0


def _is_alike(record: RunRecord, shown: RunRecord) -> bool:
    """Return whether a run's verdict speaks for the conditions of another."""
    if record.status != "completed" or not record.verdict or not record.verdict.is_valid:
        return False
    if record.verdict.is_accurate is False or why_not_again(record, shown.environment):
        return False
    return all(each.fact in _MAY_DIFFER for each in differences(shown, record, across=_MAY_DIFFER))
