"""Which workloads pass on which backends, as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mlbench.records.run_record import RunRecord
from mlbench.reports.console import is_good
from mlbench.reports.units import markdown_cell


def matrix(records: Iterable[RunRecord]) -> str:
    """Return a table of workloads and backends, from the newest run of each combination.

    A cell counts the scenarios that are valid and accurate among those that were run.
    """
    newest = {(each.workload, _column(each), each.scenario): each for each in sorted(records, key=_created)}
    columns = sorted({column for _, column, _ in newest})
    rows = sorted({workload for workload, _, _ in newest})
    lines = [f"| workload | {' | '.join(map(markdown_cell, columns))} |", f"|---|{'---|' * len(columns)}"]
    lines += [
        f"| {markdown_cell(row)} | {' | '.join(_cell(newest, row, column) for column in columns)} |" for row in rows
    ]
    return "\n".join(lines)


def _created(record: RunRecord) -> str:
    return record.created.isoformat()


def _column(record: RunRecord) -> str:
    return f"{record.backend} {record.precision}"


def _cell(newest: Mapping[tuple[str, str, str], RunRecord], row: str, column: str) -> str:
    runs = [record for (workload, where, _), record in newest.items() if (workload, where) == (row, column)]
    if not runs:
        return "-"
    good = sum(map(is_good, runs))
    failing = ", ".join(_failing(runs))
    return f"{good} of {len(runs)} scenarios" + (f" (not {failing})" if failing else "")


def _failing(runs: Iterable[RunRecord]) -> Iterator[str]:
    return (record.scenario for record in runs if not is_good(record))
