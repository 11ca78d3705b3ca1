"""``mlbench check``: does a backend keep its contract."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import overrides_option
from mlbench.contracts.graph import Precision
from mlbench.folders import cache_folder

if TYPE_CHECKING:
    from mlbench.conformance.isolated import Finding


@click.command("check", short_help="Whether a backend keeps its contract.")
@click.argument("backend")
@click.option(
    "--precision",
    type=click.Choice([str(precision) for precision in Precision]),
    help="What to compute in.  [default: what the backend prefers]",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds for each check.",
)
@overrides_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(backend: str, precision: str | None, timeout_s: float, overrides: dict[str, str], as_json: bool) -> int:
    """Run the conformance kit on BACKEND, in a process of its own: a crash or a hang fails the check it happens in."""
    from mlbench.conformance.isolated import Request, examine

    request = Request(
        backend=backend,
        settings=overrides,
        precision=Precision(precision) if precision else None,
        timeout_s=timeout_s,
    )
    log = cache_folder() / "check" / f"{backend}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    findings = examine(request, log, (lambda finding: None) if as_json else _tell)
    failed = [finding for finding in findings if not finding.passed]
    if as_json:
        click.echo(json.dumps([{**dataclasses.asdict(each), "passed": each.passed} for each in findings], indent=2))
    else:
        click.echo(f"{backend}: {len(findings) - len(failed)} of {len(findings)} checks passed.")
    if failed:
        click.echo(f"What the backend printed: {log}", err=True)
    return 1 if failed else 0


def _tell(finding: Finding) -> None:
    """Print a line for a check, and for one that failed what was demanded, what was found, and what to do."""
    if finding.passed:
        click.echo(f"{click.style('ok    ', fg='green')}  {finding.check}  ({finding.seconds:.1f} s)")
        return
    click.echo(f"{click.style('FAILED', fg='red')}  {finding.check}  ({finding.seconds:.1f} s)")
    for line in (finding.demand, finding.reason, finding.hint):
        if line:
            click.echo(f"        {line}")
