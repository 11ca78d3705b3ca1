"""``mlbench show``: one run, with every rule it was held against."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import results_option
from mlbench.cli.output import echo, echo_json


@click.command("show")
@click.argument("run")
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print the record as it is stored.")
def command(run: str, results: Path, as_json: bool) -> None:
    """Show RUN: a run folder, a run id, or the beginning or end of one."""
    from mlbench.records.run_folder import find_run
    from mlbench.records.run_record import read
    from mlbench.reports.page import page

    record = read(find_run(results, run))
    if as_json:
        echo_json(record.text())
    else:
        echo(page(record))
