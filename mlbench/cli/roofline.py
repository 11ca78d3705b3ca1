"""``mlbench roofline``: measure this machine's peak compute and bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlbench.cli.output import echo_json, echo_line
from mlbench.reports.units import with_prefix

if TYPE_CHECKING:
    from mlbench.roofline.ceilings import Ceilings


@click.command("roofline")
@click.option("--again", is_flag=True, help="Measure again, even if the peaks are known.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(again: bool, as_json: bool) -> None:
    """Measure the peak speed of matrix products and memory on this machine, in half a minute, and store the result.

    Later runs report their percentage of it.
    """
    from mlbench.records.environment import observe_environment
    from mlbench.roofline.ceilings import ceilings_file, load_ceilings, measure_ceilings

    environment = observe_environment()
    ceilings = None if again else load_ceilings(environment)
    if ceilings is None:
        ceilings = measure_ceilings(environment, lambda progress: echo_line(f"{progress.stage} ...", to_stderr=True))
    if as_json:
        echo_json(ceilings.model_dump_json(indent=2))
        return
    _show(ceilings)
    echo_line(
        f"measured {ceilings.measured:%Y-%m-%d %H:%M} UTC with {ceilings.threads} threads; kept in", to_stderr=True
    )
    echo_line(ceilings_file(environment), to_stderr=True)


def _show(ceilings: Ceilings) -> None:
    for device in ceilings.devices:
        echo_line(device.device)
        for precision, ceiling in device.operations.items():
            echo_line(f"  {precision:<8} {with_prefix(ceiling.per_s, 'op/s'):>12}  {ceiling.how}")
        for precision, reason in device.not_measured.items():
            echo_line(f"  {precision:<8} {'-':>12}  not measured: {reason}")
        echo_line(f"  {'memory':<8} {with_prefix(device.bytes.per_s, 'B/s'):>12}  {device.bytes.how}")
