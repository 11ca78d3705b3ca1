"""A search for a rate, as lines and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from mlbench.records.run_record import RunRecord
from mlbench.reports.units import plural, quantity, rough_time, significant, three_digits


class Late(Protocol):
    """The result of a trial."""

    @property
    def rate_per_s(self) -> float:
        """The rate of arrivals."""

    @property
    def is_full(self) -> bool:
        """Whether it is a full run."""

    @property
    def answered(self) -> int:
        """Number of answered queries."""

    @property
    def late(self) -> int:
        """Number of late queries."""

    @property
    def is_valid(self) -> bool:
        """Whether the verdict is valid."""

    @property
    def run_id(self) -> str:
        """The id of its record."""


def trial_line(trial: Late, *, is_stored: bool) -> str:
    """Return the result of a trial: ``probe at 730/s: 1.2 % of 4,380 late``."""
    kind = "full run" if trial.is_full else "probe"
    verdict = f", {'valid' if trial.is_valid else 'INVALID'}" if trial.is_full else ""
    source = ", stored" if is_stored else ""
    return f"{kind} at {trial.rate_per_s:g}/s: {_late(trial)} late{verdict}{source}  [{trial.run_id}]"


def _late(trial: Late) -> str:
    return f"{_late_percent(trial)} of {trial.answered:,}"


def _late_percent(trial: Late) -> str:
    share = trial.late / trial.answered if trial.answered else 0.0
    return f"{significant(100 * share, 2)} %"


def found_lines(
    name: str,
    rate_per_s: float,
    runs: Sequence[Late],
    records: Sequence[RunRecord],
    higher: RunRecord | None = None,
) -> Iterator[str]:
    """Yield the answer, its evidence, and its caveats.

    Args:
        name: of the searched system.
        rate_per_s: the sustained rate.
        runs: the full runs at it.
        records: theirs.
        higher: a run that was valid at a higher rate, if there is one.
    """
    values = sorted(record.result.value or 0.0 for record in records if record.result)
    unit = next(record.result.unit for record in records if record.result)
    shares = " and ".join(map(_late_percent, runs))
    yield f"{name}: {rate_per_s:g}/s sustained: {plural(len(runs), 'full run')} at this rate, all valid"
    yield f"  completed  {three_digits(values[0])} to {quantity(values[-1], unit)} over the repeats"
    yield f"  late       {shares} of the queries"
    yield f"  shown by   {', '.join(each.run_id for each in runs)}"
    if higher:
        qps = f"{higher.arrivals_per_s:g}"
        yield f"  higher     a run at {qps}/s was valid too, {higher.run_id};"
        yield f"             --set load.target_qps={qps} --repeat 5 shows how often"
    if any(record.verdict and record.verdict.is_accurate is False for record in records):
        yield "  Its answers miss the accuracy target: see `mlbench show`."


def plan_line(name: str, *, least_s: float, usual_s: float, stored: int) -> str:
    """Return the duration of a search."""
    verb = "is" if stored == 1 else "are"
    there = f"; {plural(stored, 'run')} of earlier searches {verb} stored and would be reused" if stored else ""
    return f"{name}: about {rough_time(usual_s)}, at least {rough_time(least_s)}{there}."


def tune_json(facts: dict[str, Any]) -> str:
    """Return the answer for other programs."""
    return json.dumps(facts, indent=2)
