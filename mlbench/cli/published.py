"""``mlbench published``: list the results published for v4.1, and rank a run among them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from mlbench.cli.completions import offer_runs, offer_scenarios, offer_workloads
from mlbench.cli.options import results_option
from mlbench.cli.output import echo_json, echo_line, terminal_width


@click.command("published")
@click.argument("workload", required=False, shell_complete=offer_workloads)
@click.option("--scenario", metavar="SCENARIO", shell_complete=offer_scenarios, help="Only this scenario.")
@click.option("--accelerator", default="", metavar="TEXT", help="Only accelerators whose name contains TEXT.")
@click.option("--submitter", default="", metavar="TEXT", help="Only submitters whose name contains TEXT.")
@click.option(
    "--place",
    metavar="RUN",
    shell_complete=offer_runs,
    help="Rank a run among the closed results of its benchmark and accuracy.",
)
@click.option("--variant", metavar="99|99.9", help="With --place: accuracy variant to rank RUN in.")
@click.option("--claims", is_flag=True, help="Print claims of press releases and blogs about the round, each checked.")
@click.option("--nvidia", is_flag=True, help="Print NVIDIA's tables for the round, each row with its official result.")
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    workload: str | None,
    scenario: str | None,
    accelerator: str,
    submitter: str,
    place: str | None,
    variant: str | None,
    claims: bool,
    nvidia: bool,
    results: Path,
    as_json: bool,
) -> None:
    """List published results of WORKLOAD, or of all."""
    from rich.console import Console

    from mlbench.errors import UsageError
    from mlbench.records.published import CLAIMS, NVIDIA_TABLES, place_of, select_published, table
    from mlbench.records.run_record import read
    from mlbench.records.store.run_folder import find_run
    from mlbench.reports.published import PUBLISHED_WIDTH, build_published_table, place_lines, rows_table

    if variant and not place:
        raise UsageError("--variant belongs to --place.", hint="`mlbench query` can filter by accuracy_variant.")
    if claims or nvidia:
        rows = table(CLAIMS if claims else NVIDIA_TABLES)
        if as_json:
            echo_json(json.dumps(rows, indent=2))
        else:
            Console(width=terminal_width() or 240).print(rows_table(rows))
        return
    if place:
        found = place_of(read(find_run(results, place)), variant=variant)
        if as_json:
            echo_json(json.dumps(dataclasses.asdict(found), indent=2))
            return
        for line in place_lines(found):
            echo_line(line)
        return
    rows_found = select_published(workload=workload, scenario=scenario, accelerator=accelerator, submitter=submitter)
    if not rows_found:
        raise UsageError("no published result matches.", hint="`mlbench published` lists all; names are as in v4.1.")
    if as_json:
        echo_json(json.dumps([dataclasses.asdict(each) for each in rows_found], indent=2))
    else:
        console = Console(width=terminal_width() or PUBLISHED_WIDTH)
        console.print(build_published_table(rows_found, console.width))
