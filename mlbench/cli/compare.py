"""``mlbench compare``: whether two sets of runs differ beyond noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import accuracy_margin_option, across_option, margin_option, results_option
from mlbench.cli.output import echo, echo_json, terminal_width

if TYPE_CHECKING:
    from mlbench.records.run_record import RunRecord


@click.command("compare")
@click.argument("base")
@click.argument("new")
@across_option
@margin_option
@accuracy_margin_option
@results_option
@click.option("--run", "measures", is_flag=True, help="BASE and NEW are suite files: make their runs first, in turns.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    base: str,
    new: str,
    across: tuple[str, ...],
    margin: float,
    accuracy_margin: float,
    results: Path,
    measures: bool,
    markdown: bool,
    as_json: bool,
) -> int:
    """Compare NEW with BASE: each a run, a folder of runs, a baseline or a tag.

    Repeats of one session resemble each other, so a change is judged by how much sessions differ: that comes from
    earlier runs of the same kind in the results folder, or from runs of both sides made in turns. With --run both sides
    are measured now, in turns, and what differs between the two files is what is compared. Exit status: 0, or 1 when
    the two sides cannot be compared.
    """
    from mlbench.comparison.compare import compare
    from mlbench.records.selection import records_named, runs_like
    from mlbench.reports.comparison import comparison_json, comparison_markdown, print_comparison

    if measures:
        ours, theirs, differing = _measure_in_turns(Path(base), Path(new), results)
        across = (*across, *differing)
    else:
        ours, theirs = records_named(results, base), records_named(results, new)
    comparison = compare(
        ours,
        theirs,
        across=across,
        margin=margin,
        accuracy_margin=accuracy_margin,
        history=runs_like(results, (*ours, *theirs)),
    )
    if as_json:
        echo_json(comparison_json(comparison))
    elif markdown:
        echo(comparison_markdown(comparison, title=f"{new} against {base}"))
    else:
        print_comparison(comparison, terminal_width())
    return 0


def _measure_in_turns(base: Path, new: Path, results: Path) -> tuple[list[RunRecord], list[RunRecord], list[str]]:
    """Make the runs of two suites in turns; return both sides, and the facts in which the files differ."""
    from mlbench.cli.run import run_and_print
    from mlbench.discovery import Plugins
    from mlbench.suite import differing_facts, in_pairs, read_suite, requests_of

    plugins = Plugins.discover()
    ours, theirs = (requests_of(read_suite(file), plugins, results=results) for file in (base, new))
    records = run_and_print(in_pairs(ours, theirs), plugins)
    sides = ([record for record in records if record.tag == side[0].tag] for side in (ours, theirs))
    return next(sides), next(sides), differing_facts(ours, theirs)
