"""``mlbench list``: list the installed plugins, with the reason why one is unavailable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from mlbench.cli.options import round_option
from mlbench.cli.output import echo_facts, echo_heading, echo_wrapped, spare_search_for_garbage
from mlbench.discovery import Plugins
from mlbench.reports.plain_text import single_line

if TYPE_CHECKING:
    from mlbench.contracts.power import PowerMeter
    from mlbench.contracts.sensor import Sensor


@click.command("list")
@round_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(round: str, as_json: bool) -> None:
    """List workloads, backends, meters, sensors and scenarios, with the reason and the fix for unavailable ones."""
    spare_search_for_garbage()
    plugins = Plugins.discover()
    listing: Mapping[str, Sequence[_Row]] = {
        "workloads": list(_workloads(plugins, round)),
        "backends": list(_backends(plugins)),
        "transforms": [
            _TransformRow(
                name=each.text, title=each.title, changes_answers=each.changes_answers, is_closed=each.is_closed
            )
            for each in plugins.transforms.values()
        ],
        "power meters": list(_meters(plugins.power_meters, plugins.meter_faults())),
        "sensors": list(_meters(plugins.sensors, plugins.sensor_faults())),
        "scenarios": [_ScenarioRow(name=each.name, title=each.title) for each in plugins.scenarios.values()],
        "broken": [
            _BrokenRow(name=each.name, distribution=each.distribution, reason=each.reason) for each in plugins.broken
        ],
    }
    if as_json:
        echo_facts({heading: [row._asdict() for row in rows] for heading, rows in listing.items()})
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


class _TransformRow(NamedTuple):
    name: str
    """With the value of every option."""
    title: str
    changes_answers: bool
    is_closed: bool
    """Whether the closed division allows it."""


class _WorkloadRow(NamedTuple):
    name: str
    title: str
    scenarios: Sequence[str]
    """Those of the round; none: it does not have the workload."""
    rounds: Sequence[str] = ()
    """The rounds that have it, if this one does not."""


class _MeterRow(NamedTuple):
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


_Row = _ScenarioRow | _TransformRow | _WorkloadRow | _MeterRow | _BackendRow | _BrokenRow


def _workloads(plugins: Plugins, round: str) -> Iterator[_WorkloadRow]:
    from mlbench.rules.round_files import has_rules, rounds_with, scenarios_of

    for workload in plugins.workloads.values():
        row = _WorkloadRow(name=workload.name, title=workload.title, scenarios=())
        if has_rules(workload, round):
            yield row._replace(scenarios=list(scenarios_of(workload, round)))
        else:
            yield row._replace(rounds=list(rounds_with(str(workload.rules))))


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


def _meters(meters: Mapping[str, PowerMeter | Sensor], faults: Mapping[str, str]) -> Iterator[_MeterRow]:
    for name, reason in faults.items():
        yield _MeterRow(name=name, title=meters[name].title, is_available=not reason, reason=reason, install="")


def _echo_row(row: _Row, width: int) -> None:
    """Print a name, padded to a width, and its description."""
    color = None
    match row:
        case _BrokenRow():
            text, color = f"broken: {row.reason} (from {row.distribution})", "red"
        case _BackendRow(is_available=False) | _MeterRow(is_available=False):
            why = "; ".join(filter(None, (row.reason, row.install)))
            text, color = f"{row.title}; unavailable: {why}", "yellow"
        case _WorkloadRow(rounds=[_, *_]):
            text, color = f"{row.title}; not in this round, but in {', '.join(row.rounds)}", "yellow"
        case _WorkloadRow(scenarios=details) | _BackendRow(precisions=details):
            text = f"{row.title}{' (' + ', '.join(details) + ')' if details else ''}"
        case _:
            text = row.title
    echo_wrapped(f"  {single_line(row.name):<{width}}  {text}", width + 4, color=color)
