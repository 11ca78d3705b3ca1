"""``mlbench table``: print stored runs as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_runs
from mlbench.cli.options import filter_options, results_option
from mlbench.cli.output import echo, terminal_width

if TYPE_CHECKING:
    from mlbench.records.store.selection import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installed:
    workloads: Mapping[str, Sequence[str]]
    """The scenarios that are defined, by workload."""
    backends: Mapping[str, str]
    """Reason why each cannot run here; empty where it can."""


def _list_installed() -> _Installed:
    """Return workloads and backends that are listed even without a run, except backends that run only when named."""
    from mlbench.discovery import Plugins
    from mlbench.rules.official_table import scenarios_of

    plugins = Plugins.discover()
    scenarios = {name: scenarios_of(workload) for name, workload in plugins.workloads.items() if workload.is_default}
    return _Installed(
        workloads={
            name: [each.name for each in plugins.scenarios.values() if each.name in defined]
            for name, defined in scenarios.items()
        },
        backends={
            name: "" if probe.is_available else probe.reason
            for name, probe in plugins.probes().items()
            if probe.rank >= 0
        },
    )


@click.command("table")
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=offer_runs)
@filter_options
@results_option
@click.option("--markdown", is_flag=True, help="Print a table of workloads by backends with the scenarios that pass.")
def command(runs: tuple[str, ...], wanted: Filter, results: Path, markdown: bool) -> None:
    """Print RUNs (runs, folders, baselines, tags), or all runs of the results folder, as a table."""
    from rich.console import Console

    from mlbench.records.store.selection import Filter, select_records
    from mlbench.reports.console import table
    from mlbench.reports.matrix import matrix
    from mlbench.reports.text_table import WIDTH

    records = select_records(results, runs, wanted)
    is_all = not runs and wanted == Filter()
    if markdown:
        installed = _list_installed() if is_all else _Installed(workloads={}, backends={})
        echo(matrix(records, workloads=installed.workloads, backends=installed.backends))
    else:
        console = Console(width=terminal_width() or WIDTH)
        console.print(table(records, console.width))
