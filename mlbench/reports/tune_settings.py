"""A search of settings, as lines and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlbench.records.run_record import RunRecord
from mlbench.reports.units import plural, quantity, rough_time


def settings_text(settings: Mapping[str, Any], start: Mapping[str, Any]) -> str:
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


def settings_json(facts: Mapping[str, Any]) -> str:
    """Return the answer for other programs."""
    return json.dumps(facts, indent=2)
