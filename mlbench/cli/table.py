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
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.discovery import Plugins
from mlbench.reports.units import plural

if TYPE_CHECKING:
    from mlbench.records.store.selection import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installed:
    workloads: Mapping[str, Sequence[str]]
    """The scenarios that are defined, by workload."""
    backends: Mapping[str, str]
    """Reason why each cannot run here; empty where it can."""


def _list_installed() -> _Installed:
    """Return workloads and backends that are listed even without a run: those that run where none is named."""
    from mlbench.rules.round_files import has_rules, scenarios_of

    plugins = Plugins.discover()
    scenarios = {
        name: scenarios_of(workload)
        for name, workload in plugins.workloads.items()
        if workload.is_default and has_rules(workload, DEFAULT_ROUND)
    }
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
@click.option("--all", "wants_all", is_flag=True, help="Print all runs, not only the newest of those that are alike.")
@click.option("--markdown", is_flag=True, help="Print a table of workloads by backends with the scenarios that pass.")
def command(runs: tuple[str, ...], wanted: Filter, results: Path, wants_all: bool, markdown: bool) -> None:
    """Print RUNs (runs, folders, baselines, tags), or the newest runs of the results folder, as a table.

    Runs of the same request under the same conditions are alike. --newest counts all of them.
    """
    from rich.console import Console

    from mlbench.records.store.selection import Filter, newest_of_each_kind, select_records
    from mlbench.reports.console import table
    from mlbench.reports.matrix import matrix
    from mlbench.reports.text_table import WIDTH

    left_out = 0
    if runs or wants_all or wanted.newest is not None:
        records = select_records(results, runs, wanted)
    else:
        records, left_out = newest_of_each_kind(results, wanted)
    is_all = not runs and wanted == Filter()
    if markdown:
        installed = _list_installed() if is_all else _Installed(workloads={}, backends={})
        echo(matrix(records, workloads=installed.workloads, backends=installed.backends))
    else:
        console = Console(width=terminal_width() or WIDTH)
        console.print(table(records, console.width))
        if left_out:
            echo(f"{plural(left_out, 'older run')} like these; --all lists them too.")
