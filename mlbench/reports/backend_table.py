"""What each backend takes for the same work: a table under the runs of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlbench.comparison.resources import processor_time_of
from mlbench.records.run_record import RunRecord
from mlbench.reports.console import spell_target
from mlbench.reports.text_table import TextColumn, TextTable, build_table, fit_columns
from mlbench.reports.units import duration, quantity

_START = ("load", "compile")
"""Stages of a run in which an engine is made."""


def backend_table(records: Sequence[RunRecord], width: int) -> TextTable | None:
    """Return a table with a row per backend and precision; None unless there are several of one kind of runs.

    The runs are those of one command: of each backend and precision the last valid one counts.
    """
    rows = {(each.backend, each.precision_and_transform): each for each in records if each.result and each.is_good}
    kinds = {(each.workload, each.scenario) for each in records}
    if len(rows) < 2 or len(kinds) > 1:
        return None
    return build_table(fit_columns(_column_choices(list(rows.values())), width), width)


def _column_choices(records: Sequence[RunRecord]) -> Iterator[Sequence[TextColumn]]:
    """Yield sets of columns: with all scores first, then with fewer of them."""
    scores = dict.fromkeys(target.score for each in records if each.accuracy for target in each.accuracy.shown)
    columns = [
        TextColumn(heading="backend", cells=[each.backend for each in records], is_cropped=True),
        TextColumn(heading="precision", cells=[each.precision_and_transform for each in records]),
        _numbers("result", [quantity(each.result.value, each.result.unit) if each.result else "-" for each in records]),
        _numbers("processor time", [_processor_time_of(each) for each in records]),
        _numbers("peak memory", [_memory_of(each) for each in records]),
        _numbers("start-up", [_start_of(each) for each in records]),
    ]
    of_scores = [_numbers(each.replace("_", " "), [_score_of(run, each) for run in records]) for each in scores]
    yield from ([*columns, *of_scores[left_out:]] for left_out in range(len(of_scores)))
    yield columns


def _numbers(heading: str, cells: Sequence[str]) -> TextColumn:
    return TextColumn(heading=heading, cells=cells, justify="right")


def _processor_time_of(record: RunRecord) -> str:
    found = next(processor_time_of(record), None)
    return quantity(found.value, found.unit) if found else "-"


def _memory_of(record: RunRecord) -> str:
    return quantity(record.peak_memory_bytes, "bytes") if record.peak_memory_bytes else "-"


def _start_of(record: RunRecord) -> str:
    spent_ns = sum(record.stages_ns.get(stage, 0) for stage in _START)
    return duration(spent_ns) if spent_ns else "-"


def _score_of(record: RunRecord, score: str) -> str:
    targets = record.accuracy.shown if record.accuracy else ()
    found = next((each for each in targets if each.score == score), None)
    return spell_target(found)[0] if found else "-"
