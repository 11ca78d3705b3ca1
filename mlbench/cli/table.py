"""``mlbench table``: stored runs, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mlbench.cli.options import results_option
from mlbench.cli.output import echo, terminal_width


def _list_installed() -> dict[str, Any]:
    """Return workloads and backends that deserve a place without a run; not those that are never to be chosen."""
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
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@results_option
@click.option("--markdown", is_flag=True, help="Workloads and backends, with how many scenarios pass.")
def command(runs: tuple[str, ...], results: Path, markdown: bool) -> None:
    """Print RUNs, or all runs of the results folder, as a table."""
    from rich.console import Console

    from mlbench.records.run_folder import find_run
    from mlbench.records.run_record import read
    from mlbench.records.selection import load_records
    from mlbench.reports.console import table
    from mlbench.reports.matrix import matrix
    from mlbench.reports.text_table import WIDTH

    records = [read(find_run(results, run)) for run in runs] or load_records(results)
    if markdown:
        echo(matrix(records) if runs else matrix(records, **_list_installed()))
    else:
        console = Console(width=terminal_width() or WIDTH)
        console.print(table(records, console.width))
