"""``mlbench cost``: samples or tokens for the money."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import results_option
from mlbench.cli.output import echo_json, echo_line, terminal_width

if TYPE_CHECKING:
    from mlbench.comparison.cost import Yields
    from mlbench.records.run_record import RunRecord


@click.command("cost")
@click.argument("runs", nargs=-1, required=True, metavar="INSTANCE=RUNS...")
@click.option(
    "--price",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="A TOML file: currency, and a table [per_hour] of prices by instance.",
)
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(runs: tuple[str, ...], price: Path, results: Path, as_json: bool) -> None:
    """Say what the throughput of RUNS (a run, a folder, a baseline or a tag) costs on INSTANCE of the price file.

    Repeats of a run are taken together, and their spread gives the interval. mlbench cannot know what a machine costs
    or what it is called where it was rented: you say both.
    """
    from rich.console import Console

    from mlbench.reports.cost import cost_json, cost_notes, cost_table

    yields = compute_cost(runs, price, results)
    if as_json:
        echo_json(cost_json(yields))
        return
    Console(width=terminal_width() or 160).print(cost_table(yields))
    for note in cost_notes(yields):
        echo_line(f"  {note}")


def compute_cost(runs: Sequence[str], price: Path, results: Path) -> Yields:
    """Return what runs, each given as INSTANCE=RUNS, give for the money.

    Raises:
        UsageError: a run or price cannot be read, or no run has a throughput.
    """
    from mlbench.comparison.cost import read_prices, yields_of
    from mlbench.errors import UsageError
    from mlbench.records.selection import records_named

    named, prices = [*map(_split_pair, runs)], read_prices(price)
    records: dict[str, list[RunRecord]] = {}
    for instance, name in named:
        records.setdefault(instance, []).extend(records_named(results, name))
    yields = yields_of(records, prices)
    if not yields.rows:
        raise UsageError(f"no run has a throughput that counts: {yields.left_out[0]}.", hint="See `mlbench table`.")
    return yields


def _split_pair(text: str) -> tuple[str, str]:
    instance, equals, name = text.partition("=")
    if not (instance and equals and name):
        raise click.UsageError(f"{text!r} is not INSTANCE=RUNS.")
    return instance, name
