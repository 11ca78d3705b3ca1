"""``mlbench list``: what is installed, and why something is unavailable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.output import echo_heading, echo_json, echo_wrapped
from mlbench.reports.plain_text import single_line

if TYPE_CHECKING:
    from mlbench.discovery import Plugins


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(as_json: bool) -> None:
    """List workloads, backends, power meters and scenarios; for unavailable ones the reason and the install command."""
    from mlbench.discovery import Plugins

    plugins = Plugins.discover()
    listing = {
        "workloads": list(_workloads(plugins)),
        "backends": list(_backends(plugins)),
        "power meters": list(_power_meters(plugins)),
        "scenarios": [{"name": each.name, "title": each.title} for each in plugins.scenarios.values()],
        "broken": [
            {"name": each.name, "distribution": each.distribution, "reason": each.reason} for each in plugins.broken
        ],
    }
    if as_json:
        echo_json(json.dumps(listing, indent=2))
        return
    for heading, rows in listing.items():
        if rows:
            echo_heading(heading.capitalize())
            width = max(len(single_line(row["name"])) for row in rows)
            for row in rows:
                _echo_row(row, width)


def _workloads(plugins: Plugins) -> Iterator[dict[str, Any]]:
    from mlbench.rules.official import official_rules

    for workload in plugins.workloads.values():
        scenarios = official_rules(workload.rules).scenarios
        yield {"name": workload.name, "title": workload.title, "scenarios": list(scenarios)}


def _backends(plugins: Plugins) -> Iterator[dict[str, Any]]:
    for name, probe in plugins.probes().items():
        backend = plugins.backends[name]
        yield {
            "name": backend.name,
            "title": backend.title,
            "is_available": probe.is_available,
            "reason": probe.reason,
            "install": probe.install,
            "devices": list(probe.devices),
            "precisions": [str(precision) for precision in probe.precisions],
        }


def _power_meters(plugins: Plugins) -> Iterator[dict[str, Any]]:
    for name, reason in plugins.meter_faults().items():
        meter = plugins.power_meters[name]
        yield {"name": meter.name, "title": meter.title, "is_available": not reason, "reason": reason, "install": ""}


def _echo_row(row: dict[str, Any], width: int) -> None:
    """Print a name, padded to a width, and its description."""
    color = None
    if "distribution" in row:
        text, color = f"broken: {row['reason']} (from {row['distribution']})", "red"
    elif not row.get("is_available", True):
        why = "; ".join(filter(None, (row["reason"], row["install"])))
        text, color = f"{row['title']}; unavailable: {why}", "yellow"
    else:
        details = row.get("scenarios") or row.get("precisions")
        text = f"{row['title']}{' (' + ', '.join(details) + ')' if details else ''}"
    echo_wrapped(f"  {single_line(row['name']):<{width}}  {text}", width + 4, color=color)
