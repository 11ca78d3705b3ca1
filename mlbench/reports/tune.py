"""A search for a rate, or for settings, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mlbench.records.run_record import RunRecord
from mlbench.reports.units import plural, quantity, rough_time, significant, three_digits

if TYPE_CHECKING:
    from mlbench.toolkit.rate_search import RateObservation


def trial_line(trial: RateObservation, *, is_stored: bool) -> str:
    """Return the result of a trial: ``probe at 730/s: 1.2 % of 4,380 late``."""
    kind = "full run" if trial.is_full else "probe"
    verdict = f", {'valid' if trial.is_valid else 'INVALID'}" if trial.is_full else ""
    source = ", stored" if is_stored else ""
    return f"{kind} at {trial.rate_per_s:g}/s: {_late(trial)} late{verdict}{source}  [{trial.run_id}]"


def _late(trial: RateObservation) -> str:
    return f"{_late_percent(trial)} of {trial.answered:,}"


def _late_percent(trial: RateObservation) -> str:
    share = trial.late / trial.answered if trial.answered else 0.0
    return f"{significant(100 * share, 2)} %"


def found_lines(
    name: str,
    rate_per_s: float,
    runs: Sequence[RateObservation],
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


def settings_text(settings: Mapping[str, object], start: Mapping[str, object]) -> str:
    """Return the changes from the current settings: ``execution.workers=2 backend.spinning=true``."""
    changed = {key: value for key, value in settings.items() if value != start[key]}
    words = (f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in changed.items())
    return " ".join(words) or "the current settings"


def settings_trial_line(what: str, record: RunRecord | None, *, is_full: bool, is_stored: bool, reason: str) -> str:
    """Return the result of a trial: ``probe, execution.workers=2: 1,210 samples/s``."""
    kind = "full run" if is_full else "probe"
    result = record.result if record else None
    value = quantity(result.value, result.unit) if result and result.value is not None else "no result"
    source = ", stored" if is_stored else ""
    found = f"{value}, {reason}" if result and reason else reason or value
    return f"{kind}, {what}: {found}{source}" + (f"  [{record.run_id}]" if record else "")


def found_settings_lines(
    name: str, best: str, of_best: Sequence[RunRecord], of_start: Sequence[RunRecord]
) -> Iterator[str]:
    """Yield the answer, its evidence, and the result of the current settings."""
    yield f"{name}: the best settings tried are {best}"
    yield f"  result     {_results(of_best)}"
    if [each.run_id for each in of_start] != [each.run_id for each in of_best]:
        yield f"  current    {_results(of_start)}"
    yield f"  shown by   {', '.join(each.run_id for each in of_best)}"


def _results(records: Sequence[RunRecord]) -> str:
    results = [each.result for each in records if each.result and each.result.value is not None]
    values = sorted(each.value for each in results if each.value is not None)
    if not values:
        return "none"
    low, high = (quantity(value, results[0].unit) for value in (values[0], values[-1]))
    runs = plural(len(values), "full run")
    return f"{low} ({runs})" if low == high else f"{low.removesuffix(f' {results[0].unit}')} to {high} over {runs}"


def settings_plan_line(name: str, *, usual_s: float, keys: Sequence[str], trials: int) -> str:
    """Return the duration of a search, and the settings that it varies."""
    return f"{name}: about {rough_time(usual_s)}, {trials} runs at most; varies {', '.join(keys)}."
