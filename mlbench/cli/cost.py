"""``mlbench cost``: samples or tokens per unit of money."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import results_option
from mlbench.cli.output import echo_json, echo_line, terminal_width


@click.command("cost")
@click.argument("runs", nargs=-1, required=True, metavar="INSTANCE=RUNS...")
@click.option(
    "--price",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="TOML file with the currency and a table [per_hour] of prices by instance.",
)
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(runs: tuple[str, ...], price: Path, results: Path, as_json: bool) -> None:
    """Print the cost of the throughput of RUNS (a run, a folder, a baseline or a tag) on INSTANCE of the price file.

    Repeats of a run are pooled, and their spread gives the interval. mlbench cannot know the price of a machine or the
    name of the instance you rented, so you give both.
    """
    from rich.console import Console

    from mlbench.comparison.cost import compute_cost
    from mlbench.reports.cost import cost_json, cost_notes, cost_table

    yields = compute_cost(runs, price, results)
    if as_json:
        echo_json(cost_json(yields))
        return
    Console(width=terminal_width() or 160).print(cost_table(yields))
    for note in cost_notes(yields):
        echo_line(f"  {note}")
