"""``mlbench run``: measure, store, print."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import overrides_option, profile_option, results_option, tier_option, weights_option
from mlbench.contracts.graph import Precision

if TYPE_CHECKING:
    from mlbench.records.run_record import RunRecord


@click.command("run", short_help="Measure workloads on backends, and store run folders.")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="May be given more than once.")
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="May be given more than once.")
@profile_option
@tier_option
@click.option(
    "--precision",
    type=click.Choice([str(precision) for precision in Precision]),
    help="What the backend computes in.  [default: the backend's first]",
)
@weights_option
@click.option("--accuracy/--no-accuracy", "wants_accuracy", default=True, help="Whether to score as well as time.")
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Runs of each combination, in turns; five or more let `mlbench compare` see small changes.",
)
@click.option("--tag", default="", metavar="NAME", help="Name the runs as a set, for `mlbench compare` and others.")
@overrides_option
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of the records, and nothing else, to stdout.")
def command(
    workloads: tuple[str, ...],
    backends: tuple[str, ...],
    scenarios: tuple[str, ...],
    profile: str,
    tier: str,
    precision: str | None,
    weights: str,
    wants_accuracy: bool,
    repeats: int,
    tag: str,
    overrides: dict[str, str],
    results: Path,
    as_json: bool,
) -> int:
    """Measure each WORKLOAD on each backend in each scenario; every combination is a run.

    Without a workload all of them run, without a backend the best one that is available, without a scenario all
    that the rules define. Exit status: 0 when every run is valid and accurate, 1 otherwise, 2 for wrong usage.
    """
    from mlbench.cli.progress import Progress
    from mlbench.contracts.workload import Profile, Weights
    from mlbench.discovery import Plugins
    from mlbench.reports.console import is_good, one_line, problems
    from mlbench.rules.tiers import Tier
    from mlbench.runner import RunRequest, check, combinations, run_benchmark

    plugins = Plugins.discover()
    wanted = combinations(
        plugins,
        workloads,
        backends,
        scenarios,
        profile=Profile(profile),
        tier=Tier(tier),
        precision=Precision(precision) if precision else None,
        weights=Weights(weights),
        wants_accuracy=wants_accuracy,
        overrides=overrides,
        results=results,
        tag=tag,
    )
    requests = []
    for each in wanted:
        if isinstance(each, RunRequest):
            check(each, plugins)
            requests.append(each)
        else:
            click.echo(f"{each.workload} {each.scenario}: the rules do not define this combination.", err=True)
    requests = [replace(request, repeat=repeat) for repeat in range(1, repeats + 1) for request in requests]
    records = []
    for number, request in enumerate(requests, 1):
        with Progress(request, number, len(requests)) as progress:
            record = run_benchmark(request, plugins, progress.hear)
        records.append(record)
        click.echo(one_line(record), err=True)
        for problem in problems(record):
            click.echo(f"  {problem}", err=True)
    _print(records, as_json)
    return 0 if records and all(map(is_good, records)) else 1


def _print(records: list[RunRecord], as_json: bool) -> None:
    if as_json:
        click.echo("[" + ",".join(record.text() for record in records) + "]")
    elif records:
        from rich.console import Console

        from mlbench.reports.console import conditions, table

        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(records))
        console.print(conditions(records), highlight=False)
