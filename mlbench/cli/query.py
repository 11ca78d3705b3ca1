"""``mlbench query``: run SQL over stored runs and published results."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mlbench.cli.options import Word, results_option
from mlbench.cli.output import echo, echo_json


@click.command("query")
@click.argument("sql", type=Word())
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
def command(sql: str, results: Path, as_json: bool, as_csv: bool) -> None:
    """Run SQL, in DuckDB's dialect, and print the rows.

    Tables: runs, accuracy, latency and telemetry come from the results folder; published, nvidia_tables and claims are
    the published results of v4.1, and need no run.
    """
    from mlbench.records.store.query import ask
    from mlbench.reports.answer import answer_csv, answer_json, answer_table

    answer = ask(results, sql)
    if as_json:
        echo_json(answer_json(answer))
    elif as_csv:
        echo(answer_csv(answer), newline=False)
    else:
        from rich.console import Console

        Console(width=None if sys.stdout.isatty() else 400).print(answer_table(answer))
