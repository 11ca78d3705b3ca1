"""A Markdown table of workloads that pass, by backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlbench.records.run_record import RunRecord
from mlbench.reports.console import standing
from mlbench.reports.plain_text import markdown_text


def matrix(
    records: Iterable[RunRecord],
    *,
    workloads: Mapping[str, Sequence[str]] | None = None,
    backends: Mapping[str, str] | None = None,
) -> str:
    """Return a table of workloads and backends, from the newest run of each combination.

    A cell counts the scenarios that are valid and accurate, and names the end of each other one's run, or untested.
    Without a run the cell says untested or cannot run here, with the reason below the table.

    Args:
        records: of stored runs, in any order.
        workloads: rows besides those that have runs, each with the scenarios that are defined for it.
        backends: columns besides those that have runs, each with the reason why it cannot run here, or "".
    """
    defined, absent = workloads or {}, backends or {}
    newest = {(each.workload, _column(each), each.scenario): each for each in sorted(records, key=_creation_time)}
    tested = {record.backend for record in newest.values()}
    columns = sorted({column for _, column, _ in newest} | absent.keys() - tested)
    rows = sorted({workload for workload, _, _ in newest} | defined.keys())
    lines = [f"| workload | {' | '.join(map(markdown_text, columns))} |", f"|---|{'---|' * len(columns)}"]
    for row in rows:
        cells = (_cell(_runs(newest, row, column), defined.get(row, ()), absent.get(column, "")) for column in columns)
        lines.append(f"| {markdown_text(row)} | {' | '.join(map(markdown_text, cells))} |")
    reasons = [markdown_text(f"{name} cannot run here: {absent[name]}.") for name in columns if absent.get(name)]
    return "\n".join([*lines, "", "  \n".join(reasons)] if reasons else lines)


def _creation_time(record: RunRecord) -> str:
    return record.created.isoformat()


def _column(record: RunRecord) -> str:
    return f"{record.backend} {record.precision_and_transform}"


def _runs(newest: Mapping[tuple[str, str, str], RunRecord], row: str, column: str) -> list[RunRecord]:
    return [record for (workload, where, _), record in newest.items() if (workload, where) == (row, column)]


def _cell(runs: Sequence[RunRecord], defined: Sequence[str], absence: str) -> str:
    if not runs:
        return "cannot run here" if absence else "untested"
    endings = {run.scenario: _ending(run) for run in runs if not run.is_good}
    if len(endings) == len(runs) and all(run.failure and run.failure.kind == "unsupported" for run in runs):
        return _ending(runs[0])
    ran = [run.scenario for run in runs]
    untested = [scenario for scenario in defined if scenario not in ran]
    notes = [f"{scenario}: {ending}" for scenario, ending in endings.items()]
    notes += [f"{', '.join(untested)}: untested"] if untested else []
    passed = f"{len(runs) - len(endings)} of {len(runs) + len(untested)} scenarios"
    return f"{passed} ({'; '.join(notes)})" if notes else passed


def _ending(run: RunRecord) -> str:
    """Return the reason in a few words why a run is not valid."""
    if run.failure:
        return f"unsupported: {run.failure.message}" if run.failure.kind == "unsupported" else run.failure.kind
    return "INVALID" if standing(run) == "INVALID" else "misses its target"
