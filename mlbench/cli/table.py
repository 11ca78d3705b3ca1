"""``mlbench table``: stored runs, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_runs
from mlbench.cli.options import filter_options, results_option
from mlbench.cli.output import echo, terminal_width

if TYPE_CHECKING:
    from mlbench.records.selection import Filter


def _list_installed() -> dict[str, Any]:
    """Return workloads and backends that are listed even without a run; not backends that run only when named."""
    from mlbench.discovery import Plugins
    from mlbench.rules.official import official_rules

    plugins = Plugins.discover()
    scenarios = {name: official_rules(workload.rules).scenarios for name, workload in plugins.workloads.items()}
    return {
        "workloads": {
            name: [each.name for each in plugins.scenarios.values() if each.loadgen in defined]
            for name, defined in scenarios.items()
        },
        "backends": {
            name: "" if probe.is_available else probe.reason
            for name, probe in plugins.probes().items()
            if probe.rank >= 0
        },
    }


@click.command("table")
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=offer_runs)
@filter_options
@results_option
@click.option("--markdown", is_flag=True, help="Workloads and backends, with how many scenarios pass.")
def command(runs: tuple[str, ...], wanted: Filter, results: Path, markdown: bool) -> None:
    """Print RUNs (runs, folders, baselines, tags), or all runs of the results folder, as a table."""
    from rich.console import Console

    from mlbench.records.selection import Filter, select_records
    from mlbench.reports.console import table
    from mlbench.reports.matrix import matrix
    from mlbench.reports.text_table import WIDTH

    records = select_records(results, runs, wanted)
    is_all = not runs and wanted == Filter()
    if markdown:
        echo(matrix(records, **_list_installed()) if is_all else matrix(records))
    else:
        console = Console(width=terminal_width() or WIDTH)
        console.print(table(records, console.width))
