"""``mlbench roofline``: what this machine can do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mlbench.roofline.ceilings import Ceilings


@click.command("roofline", short_help="This machine's ceilings of matrix products and memory, measured once.")
@click.option("--again", is_flag=True, help="Measure although it was done before.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(again: bool, as_json: bool) -> None:
    """Measure for half a minute what matrix products and memory reach here at most, and keep it.

    Later runs on this machine then tell their share of it.
    """
    from mlbench.records.environment import observe_environment
    from mlbench.roofline.ceilings import ceilings_file, known_ceilings, measured_ceilings

    environment = observe_environment()
    ceilings = None if again else known_ceilings(environment)
    if ceilings is None:
        ceilings = measured_ceilings(environment, lambda progress: click.echo(f"{progress['stage']} ...", err=True))
    if as_json:
        click.echo(ceilings.model_dump_json(indent=2))
        return
    _show(ceilings)
    click.echo(f"measured {ceilings.measured:%Y-%m-%d %H:%M} UTC with {ceilings.threads} threads; kept in", err=True)
    click.echo(ceilings_file(environment), err=True)


def _show(ceilings: Ceilings) -> None:
    from mlbench.reports.units import scaled

    for device in ceilings.devices:
        click.echo(device.device)
        for precision, ceiling in device.operations.items():
            click.echo(f"  {precision:<8} {scaled(ceiling.per_s, 'op/s'):>12}  {ceiling.how}")
        for precision, reason in device.not_measured.items():
            click.echo(f"  {precision:<8} {'-':>12}  not measured: {reason}")
        click.echo(f"  {'memory':<8} {scaled(device.bytes.per_s, 'B/s'):>12}  {device.bytes.how}")
