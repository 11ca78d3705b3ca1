"""Runs of a baseline that later runs cannot be compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlbench.comparison.comparability import key_of
from mlbench.comparison.compare import cell_name
from mlbench.comparison.measures import why_not_counted
from mlbench.records.run_record import RunRecord

_MOST_NAMED = 3


def count_bad(records: Sequence[RunRecord]) -> Iterator[str]:
    """Yield a line about runs that failed or are INVALID, then cells without valid runs; nothing if all are good."""
    bad = {record.run_id: reason for record in records if (reason := why_not_counted(record))}
    if not bad:
        return
    named = [f"{run}: {reason}" for run, reason in bad.items()]
    more = [f"{len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
    listed = "; ".join([*named[:_MOST_NAMED], *more])
    yield f"{len(bad)} of {len(records)} runs failed or are INVALID, and no later run is judged by them: {listed}."
    judged = {key_of(record, ()) for record in records if record.run_id not in bad}
    for name in dict.fromkeys(cell_name(each) for each in records if key_of(each, ()) not in judged):
        yield f"{name}: no valid run, so nothing of it will be judged. Measure it again, and save the baseline anew."
