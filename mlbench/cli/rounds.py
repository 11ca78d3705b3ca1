"""``mlbench rounds``: list the rounds of MLPerf Inference whose rules mlbench has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from mlbench.cli.output import echo_facts, echo_heading, echo_wrapped

if TYPE_CHECKING:
    from mlbench.rules.official import Round


@click.command("rounds")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> None:
    """List the rounds, oldest first: last day of submissions, workloads, and changes against the round before.

    `mlbench rules WORKLOAD --round ROUND` prints what a round asks of a workload.
    """
    from mlbench.rules.official import round_named
    from mlbench.rules.round_files import known_rounds

    rounds = [round_named(name) for name in known_rounds()]
    rows = [_row(each, before) for each, before in zip(rounds, [None, *rounds], strict=False)]
    if as_json:
        echo_facts([row._asdict() for row in rows])
        return
    for row in rows:
        echo_heading(f"{row.round}, submissions until {row.deadline}")
        for name in ("workloads", "new", "gone"):
            if values := getattr(row, name):
                echo_wrapped(f"  {name:<10}{', '.join(values)}", 12)
        for line in row.changed:
            echo_wrapped(f"  {'changed':<10}{line}", 12)


class _RoundRow(NamedTuple):
    round: str
    deadline: str
    workloads: Sequence[str]
    new: Sequence[str] = ()
    gone: Sequence[str] = ()
    changed: Sequence[str] = ()


def _row(each: Round, before: Round | None) -> _RoundRow:
    from mlbench.rules.round_changes import changes_of
    from mlbench.rules.round_files import own_name

    row = _RoundRow(round=each.name, deadline=each.deadline.isoformat(), workloads=tuple(map(own_name, each.rows)))
    if not before:
        return row
    changes = changes_of(before, each)
    return row._replace(new=changes.new, gone=changes.gone, changed=changes.changed)
