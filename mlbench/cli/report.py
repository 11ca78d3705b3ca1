"""``mlbench report``: runs, a comparison or a trend as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_runs
from mlbench.cli.options import across_option, filter_options, margin_option, output_option, results_option
from mlbench.cli.output import echo, echo_line
from mlbench.errors import UsageError
from mlbench.records.store.whole_file import write_whole
from mlbench.reports.units import size

if TYPE_CHECKING:
    from mlbench.records.run_record import RunRecord
    from mlbench.records.store.selection import Filter
    from mlbench.reports.summary import Content, Summary


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUNS]...", shell_complete=offer_runs)
@output_option("FILE", "File to write; FILE.svg and FILE.png hold the first picture only.", is_file=True)
@click.option(
    "--compare", "sides", nargs=2, metavar="BASE NEW", help="Compare NEW with BASE, as `mlbench compare` does."
)
@click.option("--markdown", is_flag=True, help="Write a Markdown summary; printed if no file is named.")
@click.option(
    "--cost",
    "priced_runs",
    multiple=True,
    metavar="INSTANCE=RUNS",
    help="Price RUNS on INSTANCE, like `mlbench cost`; repeatable.",
)
@click.option("--price", type=click.Path(path_type=Path), metavar="FILE", help="Prices for --cost; see `mlbench cost`.")
@filter_options
@across_option
@margin_option
@results_option
def command(
    runs: tuple[str, ...],
    output: Path | None,
    sides: tuple[str, str] | None,
    markdown: bool,
    priced_runs: tuple[str, ...],
    price: Path | None,
    wanted: Filter,
    across: tuple[str, ...],
    margin: float,
    results: Path,
) -> None:
    """Write a report on RUNS: each a run, a folder of runs, a baseline or a tag; default: the results folder.

    The file needs no network and no other file. With --compare, filters apply to each side.
    Combinations with three or more runs get a trend chart.
    """
    from mlbench.comparison.compare import compare
    from mlbench.comparison.cost import compute_cost
    from mlbench.comparison.history import histories_of
    from mlbench.records.store.selection import folders_of, runs_like
    from mlbench.reports.summary import Content, summarise
    from mlbench.reports.summary_markdown import summary_markdown

    if runs and sides:
        raise UsageError(f"run {runs[0]!r} is given together with --compare.", hint="Name BASE and NEW only.")
    if not output and not markdown:
        raise UsageError("no file to write to.", hint="Name one with -o report.html, or print with --markdown.")
    if bool(priced_runs) != bool(price):
        given, other = ("--cost", "--price FILE") if priced_runs else ("--price", "--cost INSTANCE=RUNS")
        raise UsageError(f"{given} is given without {other.split()[0]}.", hint=f"Add {other}.")
    found = _select_sides(results, runs, sides, wanted)
    summary = summarise(found)
    history = runs_like(results, summary.runs) if sides else []
    comparison = compare(found["base"], found["new"], across=across, margin=margin, history=history) if sides else None
    steps = {each.points[step.index].run_id for each in histories_of(summary.runs) for step in each.steps}
    title = _title(runs, sides, wanted, summary)
    cost = compute_cost(priced_runs, price, results) if price else None
    folders = folders_of(results, (*runs, *(sides or ())), summary.runs)
    content = Content(
        title=title, summary=summary, comparison=comparison, steps=frozenset(steps), cost=cost, folders=folders
    )
    is_picture = output and not markdown and output.suffix in (".svg", ".png")
    text = "" if is_picture else summary_markdown(content) if markdown else _page(content)
    if output:
        data = _picture(summary, output.suffix) if is_picture else text.encode()
        write_whole(output, data)
        echo_line(f"{output}: {len(summary.runs)} runs, {size(len(data))}")
    else:
        echo(text, newline=False)


def _page(content: Content) -> str:
    from mlbench.reports.html.rendering import check_installed

    check_installed("a report")
    from mlbench.reports.html.page import html_page

    return html_page(content)


def _picture(summary: Summary, suffix: str) -> bytes:
    """Return the picture that a report begins with, as SVG or PNG."""
    from mlbench.reports.html.rendering import check_installed, stand_alone

    check_installed("a picture")
    from mlbench.reports.html.overview import overview_figure

    if not (figure := overview_figure(summary)):
        raise UsageError("no run is valid, so there is nothing to draw.", hint="`mlbench table` says why.")
    import vl_convert

    svg = stand_alone(figure.svg)
    return svg.encode() if suffix == ".svg" else bytes(vl_convert.svg_to_png(svg, scale=2))


def _select_sides(
    results: Path, runs: tuple[str, ...], sides: tuple[str, str] | None, wanted: Filter
) -> dict[str, list[RunRecord]]:
    """Return the filtered records of each side of a comparison by name, or those of RUNS under an empty name."""
    from mlbench.records.store.selection import select_records

    if sides:
        return {
            side: select_records(results, [name], wanted) for side, name in zip(("base", "new"), sides, strict=True)
        }
    return {"": select_records(results, runs, wanted)}


def _title(runs: tuple[str, ...], sides: tuple[str, str] | None, wanted: Filter, summary: Summary) -> str:
    """Return a title: folder names without their path, and the filter; for a single run its description."""
    if len(summary.runs) == 1 and not sides:
        (run,) = summary.runs
        return f"{run.workload} on {run.backend}, {run.scenario}"
    if sides:
        base, new = (Path(side).name for side in sides)
        title = f"{new} against {base}"
    else:
        title = ", ".join(Path(run).name for run in runs) or "All runs"
    parts = [each for each in (wanted.workload, wanted.backend, wanted.scenario, wanted.tier) if each]
    newest = [f"newest {wanted.newest}"] if wanted.newest else []
    return f"{title}: {', '.join([*parts, *newest])}" if parts or newest else title
