"""``mlbench regress``: did anything get worse since the baseline? Made for CI."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import across_option, margin_option, results_option


@click.command("regress", short_help="Exit 1 when runs are slower or less accurate than a baseline.")
@click.argument("new", required=False)
@click.option("--baseline", required=True, metavar="NAME", help="See `mlbench baseline list`.")
@across_option
@margin_option
@results_option
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML to this file.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    new: str | None,
    baseline: str,
    across: tuple[str, ...],
    margin: float,
    results: Path,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> int:
    """Compare NEW (a run, a folder or a tag; all runs of the results folder made since) with a baseline.

    Exit status: 0 when nothing got worse, 1 when something is slower, less accurate, missing or has no valid run, or
    when the two cannot be compared.
    """
    from mlbench.comparison.compare import compare
    from mlbench.errors import UsageError
    from mlbench.records.baselines import read_baseline
    from mlbench.records.selection import records_named, stored_records
    from mlbench.records.whole_file import write_whole
    from mlbench.reports.comparison import (
        comparison_json,
        comparison_junit,
        comparison_markdown,
        print_comparison,
    )

    stored = read_baseline(results, baseline)
    if new is not None:
        records = records_named(results, new)
    else:
        records = [record for record in stored_records(results) if record.created > stored.created]
        if not records:
            raise UsageError(f"no runs in {results} since baseline {baseline!r}.", hint="Run the suite again.")
    comparison = compare(stored.records, records, across=across, margin=margin)
    if junit:
        write_whole(junit, comparison_junit(comparison))
    if markdown:
        write_whole(markdown, comparison_markdown(comparison, title=f"mlbench against baseline {baseline}"))
    if as_json:
        click.echo(comparison_json(comparison))
    else:
        print_comparison(comparison)
    return 1 if comparison.is_worse else 0
