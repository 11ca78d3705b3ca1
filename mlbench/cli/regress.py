"""``mlbench regress``: did anything get worse since the baseline? Made for CI."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import accuracy_margin_option, across_option, margin_option, results_option

if TYPE_CHECKING:
    from mlbench.comparison.compare import Comparison
    from mlbench.records.run_record import RunRecord


@click.command("regress", short_help="Exit 1 when runs are slower or less accurate than a baseline.")
@click.argument("new", required=False)
@click.option("--baseline", required=True, metavar="NAME", help="See `mlbench baseline list`.")
@click.option(
    "--again",
    metavar="RUNS",
    help="Runs of what the baseline measured, made again in turns with NEW; speeds are held against these.",
)
@across_option
@margin_option
@accuracy_margin_option
@click.option("--strict", is_flag=True, help="Exit 1 also when something could not be judged.")
@results_option
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML to this file.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    new: str | None,
    baseline: str,
    again: str | None,
    across: tuple[str, ...],
    margin: float,
    accuracy_margin: float,
    strict: bool,
    results: Path,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> int:
    """Compare the newest session of NEW with a baseline.

    NEW is a run, a folder or a tag; left out, it is all runs of the results folder made since the baseline. Of these
    the newest session is judged, and earlier ones show how much sessions differ.

    Exit status: 0 when nothing got worse, 1 when something is slower, less accurate, missing or has no valid run, when
    nothing at all could be judged, or when the two cannot be compared. With --strict also when anything could not be
    judged: a number that cannot be told, accuracy that was not run, runs that failed or are INVALID.
    """
    from mlbench.comparison.compare import compare
    from mlbench.comparison.sessions import newest_session
    from mlbench.records.baselines import read_baseline
    from mlbench.records.selection import records_named, runs_like

    stored = read_baseline(results, baseline)
    records = _newest(results, new, stored.created, baseline)
    made_again = newest_session(records_named(results, again)) if again else []
    comparison = compare(
        stored.records,
        records,
        across=across,
        margin=margin,
        accuracy_margin=accuracy_margin,
        history=runs_like(results, (*stored.records, *records)),
        again=made_again,
    )
    _show(comparison, baseline, junit=junit, markdown=markdown, as_json=as_json)
    is_unsure = comparison.is_blind or (strict and bool(comparison.not_judged))
    return 1 if comparison.is_worse or is_unsure else 0


def _newest(results: Path, new: str | None, since: datetime, baseline: str) -> list[RunRecord]:
    """Return the newest session of what is named, else of all that was made since the baseline."""
    from mlbench.comparison.sessions import newest_session
    from mlbench.errors import UsageError
    from mlbench.records.selection import records_named, stored_records

    if new is not None:
        return newest_session(records_named(results, new))
    records = [record for record in stored_records(results) if record.created > since]
    if not records:
        raise UsageError(f"no runs in {results} since baseline {baseline!r}.", hint="Run the suite again.")
    return newest_session(records)


def _show(comparison: Comparison, baseline: str, *, junit: Path | None, markdown: Path | None, as_json: bool) -> None:
    """Write what was asked for, then print."""
    from mlbench.records.whole_file import write_whole
    from mlbench.reports.comparison import (
        comparison_json,
        comparison_junit,
        comparison_markdown,
        print_comparison,
    )

    if junit:
        write_whole(junit, comparison_junit(comparison))
    if markdown:
        write_whole(markdown, comparison_markdown(comparison, title=f"mlbench against baseline {baseline}"))
    if as_json:
        click.echo(comparison_json(comparison))
    else:
        print_comparison(comparison)
