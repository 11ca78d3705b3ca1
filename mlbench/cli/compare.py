"""``mlbench compare``: two sets of runs, and whether they differ beyond noise."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import across_option, margin_option, results_option


@click.command("compare", short_help="Two sets of runs: faster, slower, the same, or cannot tell.")
@click.argument("base")
@click.argument("new")
@across_option
@margin_option
@results_option
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    base: str, new: str, across: tuple[str, ...], margin: float, results: Path, markdown: bool, as_json: bool
) -> int:
    """Compare NEW with BASE: each a run, a folder of runs, a baseline or a tag.

    Runs of the same request are repeats; five or more on each side let small changes be seen. Exit status: 0, or 1 when
    the two sides cannot be compared.
    """
    from mlbench.comparison.compare import compare
    from mlbench.records.selection import records_named
    from mlbench.reports.comparison import comparison_json, comparison_markdown, print_comparison

    comparison = compare(records_named(results, base), records_named(results, new), across=across, margin=margin)
    if as_json:
        click.echo(comparison_json(comparison))
    elif markdown:
        click.echo(comparison_markdown(comparison, title=f"{new} against {base}"))
    else:
        print_comparison(comparison)
    return 0
