"""``mlbench list``: list the installed plugins, with the reason why one is unavailable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from mlbench.cli.output import echo_heading, echo_json, echo_wrapped, spare_search_for_garbage
from mlbench.reports.plain_text import single_line

if TYPE_CHECKING:
    from mlbench.discovery import Plugins


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(as_json: bool) -> None:
    """List workloads, backends, power meters and scenarios, with the reason and the fix for unavailable ones."""
    from mlbench.discovery import Plugins, validation  # noqa: F401

    spare_search_for_garbage()
    plugins = Plugins.discover()
    listing: Mapping[str, Sequence[_Row]] = {
        "workloads": list(_workloads(plugins)),
        "backends": list(_backends(plugins)),
        "power meters": list(_power_meters(plugins)),
        "scenarios": [_ScenarioRow(name=each.name, title=each.title) for each in plugins.scenarios.values()],
        "broken": [
            _BrokenRow(name=each.name, distribution=each.distribution, reason=each.reason) for each in plugins.broken
        ],
    }
    if as_json:
        echo_json(json.dumps({heading: [row._asdict() for row in rows] for heading, rows in listing.items()}, indent=2))
        return
    for heading, rows in listing.items():
        if rows:
            echo_heading(heading.capitalize())
            width = max(len(single_line(row.name)) for row in rows)
            for row in rows:
                _echo_row(row, width)


class _ScenarioRow(NamedTuple):
    name: str
    title: str


class _WorkloadRow(NamedTuple):
    name: str
    title: str
    scenarios: Sequence[str]


class _PowerMeterRow(NamedTuple):
    name: str
    title: str
    is_available: bool
    reason: str
    install: str


class _BackendRow(NamedTuple):
    name: str
    title: str
    is_available: bool
    reason: str
    install: str
    devices: Sequence[str]
    precisions: Sequence[str]


class _BrokenRow(NamedTuple):
    name: str
    distribution: str
    reason: str


_Row = _ScenarioRow | _WorkloadRow | _PowerMeterRow | _BackendRow | _BrokenRow


def _workloads(plugins: Plugins) -> Iterator[_WorkloadRow]:
    from mlbench.rules.official_table import scenarios_of

    for workload in plugins.workloads.values():
        yield _WorkloadRow(name=workload.name, title=workload.title, scenarios=list(scenarios_of(workload)))


def _backends(plugins: Plugins) -> Iterator[_BackendRow]:
    for name, probe in plugins.probes().items():
        backend = plugins.backends[name]
        yield _BackendRow(
            name=backend.name,
            title=backend.title,
            is_available=probe.is_available,
            reason=probe.reason,
            install=probe.install,
            devices=list(probe.devices),
            precisions=[str(precision) for precision in probe.precisions],
        )


def _power_meters(plugins: Plugins) -> Iterator[_PowerMeterRow]:
    for name, reason in plugins.meter_faults().items():
        meter = plugins.power_meters[name]
        yield _PowerMeterRow(name=meter.name, title=meter.title, is_available=not reason, reason=reason, install="")


def _echo_row(row: _Row, width: int) -> None:
    """Print a name, padded to a width, and its description."""
    color = None
    match row:
        case _BrokenRow():
            text, color = f"broken: {row.reason} (from {row.distribution})", "red"
        case _BackendRow(is_available=False) | _PowerMeterRow(is_available=False):
            why = "; ".join(filter(None, (row.reason, row.install)))
            text, color = f"{row.title}; unavailable: {why}", "yellow"
        case _WorkloadRow(scenarios=details) | _BackendRow(precisions=details):
            text = f"{row.title}{' (' + ', '.join(details) + ')' if details else ''}"
        case _:
            text = row.title
    echo_wrapped(f"  {single_line(row.name):<{width}}  {text}", width + 4, color=color)
