"""``mlbench show``: print a run, with every rule that was checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_runs
from mlbench.cli.options import filter_options, results_option
from mlbench.cli.output import echo_json, echo_wrapped
from mlbench.errors import UsageError
from mlbench.records.store.run_names import names_in

if TYPE_CHECKING:
    from mlbench.records.store.selection import Filter

_HANGING = 2
"""Indent of a continued line."""
_NAMED = re.compile(r" +\S+(?: \S+)* {2,}(?=\S)")
"""A name and the spaces before its value."""


@click.command("show")
@click.argument("runs", nargs=-1, metavar="RUN...", shell_complete=offer_runs)
@filter_options
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print the stored record.")
def command(runs: tuple[str, ...], wanted: Filter, results: Path, as_json: bool) -> None:
    """Show each RUN: a run by its folder, its id, or the start or end of its id; a folder of runs, a baseline or a tag.

    With --json one run is an object, several are an array.
    """
    from mlbench.records.store.selection import select_records

    if not runs:
        raise UsageError("no run is named.", hint=_newest(results))
    from mlbench.reports.page import page

    records = select_records(results, runs, wanted)
    if as_json:
        texts = [record.text() for record in records]
        echo_json(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
    else:
        for number, record in enumerate(records):
            for line in (*([""] if number else []), *page(record).split("\n")):
                echo_wrapped(line, _indent_of(line))


def _newest(results: Path) -> str:
    """Return how to show the newest run."""
    if not (names := names_in(results)):
        return f"{results} has no runs yet."
    return f"The newest is `mlbench show {max(names).rpartition('-')[2]}`; `mlbench table` lists all."


def _indent_of(line: str) -> int:
    """Return the indent of a continued line: below the value after a name, or a little further in."""
    named = _NAMED.match(line)
    return named.end() if named else len(line) - len(line.lstrip()) + _HANGING
