"""Which workloads pass on which backends, as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mlbench.records.run_record import RunRecord
from mlbench.reports.console import is_good
from mlbench.reports.units import markdown_cell


def matrix(
    records: Iterable[RunRecord], *, workloads: Sequence[str] = (), backends: Mapping[str, str] | None = None
) -> str:
    """Return a table of workloads and backends, from the newest run of each combination.

    A cell counts the scenarios that are valid and accurate among those that were run, or says that the backend cannot
    compile a graph of the workload, that it was not tested, or that it cannot run here; why not stands below.

    Args:
        records: of stored runs, in any order.
        workloads: rows besides those that have runs.
        backends: columns besides those that have runs, each with the reason why it cannot run here, or "".
    """
    absent = backends or {}
    newest = {(each.workload, _column(each), each.scenario): each for each in sorted(records, key=_created)}
    tested = {record.backend for record in newest.values()}
    columns = sorted({column for _, column, _ in newest} | absent.keys() - tested)
    rows = sorted({workload for workload, _, _ in newest} | set(workloads))
    lines = [f"| workload | {' | '.join(map(markdown_cell, columns))} |", f"|---|{'---|' * len(columns)}"]
    for row in rows:
        cells = (_cell(_runs(newest, row, column), absent.get(column, "")) for column in columns)
        lines.append(f"| {markdown_cell(row)} | {' | '.join(cells)} |")
    reasons = [f"{name} cannot run here: {absent[name]}." for name in columns if absent.get(name)]
    return "\n".join([*lines, "", "  \n".join(reasons)] if reasons else lines)


def _created(record: RunRecord) -> str:
    return record.created.isoformat()


def _column(record: RunRecord) -> str:
    return f"{record.backend} {record.precision}"


def _runs(newest: Mapping[tuple[str, str, str], RunRecord], row: str, column: str) -> list[RunRecord]:
    return [record for (workload, where, _), record in newest.items() if (workload, where) == (row, column)]


def _cell(runs: Sequence[RunRecord], absence: str) -> str:
    if not runs:
        return "cannot run here" if absence else "untested"
    refusals = [run.failure.message for run in runs if run.failure and run.failure.kind == "unsupported"]
    if len(refusals) == len(runs):
        return f"unsupported: {refusals[0]}".replace("|", "\\|")
    good = sum(map(is_good, runs))
    failing = ", ".join(_failing(runs))
    return f"{good} of {len(runs)} scenarios" + (f" (not {failing})" if failing else "")


def _failing(runs: Iterable[RunRecord]) -> Iterator[str]:
    return (record.scenario for record in runs if not is_good(record))
