"""``mlbench baseline``: named sets of runs to compare later runs with."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from mlbench.cli.completions import offer_baselines, offer_runs
from mlbench.cli.options import results_option
from mlbench.cli.output import echo_json, echo_line, terminal_width
from mlbench.errors import DataError

logger = logging.getLogger(__name__)


@click.group("baseline")
def command() -> None:
    """Save, list, show and remove baselines. They hold copies of the records, so run folders may be deleted."""


@command.command("save")
@click.argument("name", shell_complete=offer_baselines)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=offer_runs)
@results_option
def save(name: str, runs: tuple[str, ...], results: Path) -> None:
    """Store RUNs (runs, folders, tags) as baseline NAME, replacing an older one."""
    from mlbench.comparison.bad_runs import count_bad
    from mlbench.records.beside import count_neighboured
    from mlbench.records.machine.other_work import count_beside
    from mlbench.records.store.baselines import save_baseline
    from mlbench.records.store.selection import records_named

    records = [record for run in runs for record in records_named(results, run)]
    save_baseline(results, name, records)
    echo_line(f"{name}: {len(records)} runs")
    for line in count_bad(records):
        echo_line(line)
    if found := count_beside([record.other_work for record in records]):
        echo_line(f"{found}: measure again on a quiet machine before you compare later runs with these.")
    if found := count_neighboured([record.beside for record in records]):
        echo_line(f"{found}: only runs measured under the same conditions are compared with these.")


@command.command("list")
@results_option
def list_(results: Path) -> None:
    """Print each baseline with its date and number of runs."""
    from mlbench.records.store.baselines import baseline_names, read_baseline

    for name in baseline_names(results):
        try:
            baseline = read_baseline(results, name)
        except DataError as error:
            logger.warning("%s", error)
            continue
        echo_line(f"{name}  {baseline.created:%Y-%m-%d %H:%M}  {len(baseline.records)} runs")


@command.command("show")
@click.argument("name", shell_complete=offer_baselines)
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print the stored JSON.")
def show(name: str, results: Path, as_json: bool) -> None:
    """Print the runs of baseline NAME."""
    from rich.console import Console

    from mlbench.records.store.baselines import read_baseline
    from mlbench.reports.console import table
    from mlbench.reports.text_table import WIDTH

    baseline = read_baseline(results, name)
    if as_json:
        echo_json(baseline.model_dump_json(indent=2))
    else:
        console = Console(width=terminal_width() or WIDTH)
        console.print(table(baseline.records, console.width))


@command.command("remove")
@click.argument("name", shell_complete=offer_baselines)
@results_option
def remove(name: str, results: Path) -> None:
    """Delete baseline NAME."""
    from mlbench.records.store.baselines import remove_baseline

    remove_baseline(results, name)
    echo_line(f"{name}: removed")
