"""``mlbench site``: write all stored runs as a folder of pages."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import Word, margin_option, results_option
from mlbench.cli.output import echo_line
from mlbench.reports.units import plural, size


@click.command("site")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--title", type=Word(), default="Results", show_default=True, metavar="TEXT", help="Heading of the site.")
@margin_option
@results_option
def command(folder: Path, title: str, margin: float, results: Path) -> None:
    """Write a site about all stored runs to DIR: open DIR/index.html, or publish the folder as it is.

    It has a page per workload (newest results, comparison of backends, each metric over time with its changes of level)
    and a page for each newest run. DIR must be new, empty, or an older site, which is replaced.
    """
    from mlbench.records.store.stored_runs import open_stored_runs
    from mlbench.records.store.whole_folder import check_place, write_site
    from mlbench.reports.html.rendering import check_installed

    check_place(folder)
    check_installed("a site")
    from mlbench.reports.site.pages import site_pages

    with open_stored_runs(results) as stored:
        written = write_site(folder, site_pages(stored, title, margin))
        echo_line(f"{folder / 'index.html'}: {plural(stored.count, 'run')}, {size(written)}")
