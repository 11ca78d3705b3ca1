"""``mlbench history``: follow a metric over many runs, and find changes of its level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_backends, offer_runs, offer_scenarios, offer_workloads
from mlbench.cli.options import Word, margin_option, results_option
from mlbench.cli.output import echo_json, terminal_width
from mlbench.discovery import nearest
from mlbench.errors import UsageError

if TYPE_CHECKING:
    from mlbench.records.run_record import RunRecord


@click.command("history")
@click.argument("runs", nargs=-1, metavar="[RUNS]...", shell_complete=offer_runs)
@click.option(
    "--workload", type=Word(), metavar="WORKLOAD", shell_complete=offer_workloads, help="Only runs of this workload."
)
@click.option(
    "--backend", type=Word(), metavar="BACKEND", shell_complete=offer_backends, help="Only runs on this backend."
)
@click.option(
    "--scenario", type=Word(), metavar="SCENARIO", shell_complete=offer_scenarios, help="Only runs in this scenario."
)
@margin_option
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(
    runs: tuple[str, ...],
    workload: str | None,
    backend: str | None,
    scenario: str | None,
    margin: float,
    results: Path,
    as_json: bool,
) -> None:
    """Follow each metric through RUNS (runs, folders, baselines, tags; default: the results folder), oldest first.

    Runs of the same request on the same machine, data and model form one history. A step is a change of level that is
    larger than the margin and statistically significant; other changes at the same run are listed with it.
    """
    from mlbench.comparison.history import histories_of
    from mlbench.reports.history import histories_json, print_histories

    given = {"workload": workload, "backend": backend, "scenario": scenario}
    wanted = {name: value for name, value in given.items() if value}
    histories = histories_of(_select_records(results, runs, wanted), margin=margin)
    if not histories:
        raise UsageError("no matching run has a result.", hint=_hint(results, wanted))
    if as_json:
        echo_json(histories_json(histories))
    else:
        print_histories(histories, terminal_width())


def _hint(results: Path, wanted: dict[str, str]) -> str:
    """Return the filter that no run matches, and the most similar name of a run."""
    from mlbench.records.store.index import folders_where
    from mlbench.records.store.reading import read_runs

    records = read_runs(folders_where(results)) if wanted else []
    for name, value in wanted.items():
        found = dict.fromkeys(getattr(record, name) for record in records)
        if found and value not in found:
            return f"No run has {name} {value!r}. {nearest(value, found)}"
    return "See `mlbench table`."


def _select_records(results: Path, runs: tuple[str, ...], wanted: dict[str, str]) -> list[RunRecord]:
    """Return the records of the named runs, or the matching ones of the whole folder."""
    from mlbench.records.store.index import folders_where
    from mlbench.records.store.reading import read_runs
    from mlbench.records.store.selection import records_named

    if not runs:
        return read_runs(folders_where(results, **wanted))
    records = {record.run_id: record for name in runs for record in records_named(results, name)}
    return [
        record for record in records.values() if all(getattr(record, name) == value for name, value in wanted.items())
    ]
