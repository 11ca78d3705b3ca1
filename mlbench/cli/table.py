"""``mlbench table``: stored runs, side by side."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import results_option


@click.command("table", short_help="Stored runs as a table; --markdown: what passes where.")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@results_option
@click.option("--markdown", is_flag=True, help="Workloads and backends, with how many scenarios pass.")
def command(runs: tuple[str, ...], results: Path, markdown: bool) -> None:
    """Print RUNs, or all runs of the results folder, as a table."""
    from rich.console import Console

    from mlbench.errors import UsageError
    from mlbench.records.run_folder import find_run, runs_in
    from mlbench.records.run_record import read
    from mlbench.reports.console import table
    from mlbench.reports.matrix import matrix

    records = [read(folder) for folder in ([find_run(results, run) for run in runs] or runs_in(results))]
    if not records:
        raise UsageError(f"no runs in {results}.", hint="Measure something with `mlbench run`.")
    if markdown:
        click.echo(matrix(records))
    else:
        Console(width=160).print(table(records))
