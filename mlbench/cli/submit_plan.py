"""``mlbench submit plan``: list the required entries of a system, and the missing runs."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_backends
from mlbench.cli.options import output_option, results_option, round_option
from mlbench.cli.output import echo_json, echo_line, terminal_width
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.workload import Profile
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.records.expected_cost import ExpectedTime
from mlbench.records.store.whole_file import write_whole
from mlbench.reports.preflight import spell_time
from mlbench.reports.units import plural, rough_time
from mlbench.rules.round_parts import Category

if TYPE_CHECKING:
    from mlbench.planning.requests import RunRequest
    from mlbench.records.run_record import RunRecord
    from mlbench.submission.planning import PlannedEntry


@click.command("plan")
@click.argument("runs", nargs=-1, metavar="[RUNS]...")
@click.option(
    "--category",
    "categories",
    type=click.Choice([each.value for each in Category]),
    multiple=True,
    help="System category; repeatable.  [default: both; in network: datacenter]",
)
@click.option(
    "--division",
    type=click.Choice(["closed", "network"]),
    default="closed",
    show_default=True,
    help="Division of the submission.",
)
@round_option
@click.option(
    "--backend", shell_complete=offer_backends, help="Backend for the missing runs.  [default: the best available]"
)
@click.option(
    "--machine", metavar="HASH", help="Hash of the machine, as shown by `mlbench show`.  [default: this machine's]"
)
@output_option("FILE", "Write the missing runs as a suite file.")
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    runs: tuple[str, ...],
    categories: tuple[str, ...],
    division: str,
    round: str,
    backend: str | None,
    machine: str | None,
    output: Path | None,
    results: Path,
    as_json: bool,
) -> int:
    """Print the entries required in the closed or network division, the runs that qualify, and the missing runs.

    RUNS are runs, folders or tags; default: the results folder. A run qualifies for an entry if it is of the full
    profile and tier valid, follows the official rules and reaches the entry's accuracy; the newest one counts. Times
    come from earlier runs of the same kind, or are the shortest that the rules allow. Exit status: 0 when no run is
    missing, 1 otherwise.
    """
    from mlbench.records.environment import observe_environment
    from mlbench.rules.entry_demand import Division
    from mlbench.rules.official import round_named
    from mlbench.submission.planning import missing_runs, plan_entry, required_entries

    plugins = Plugins.discover()
    chosen = (plugins.backend(backend) if backend else plugins.best_backend(None)).name
    is_network = division == Division.NETWORK
    if is_network:
        _check_network(categories, output)
    default = [Category.DATACENTER] if is_network else [*Category]
    of = [Category(each) for each in dict.fromkeys(categories)] or default
    required = required_entries(of, round_named(round))
    records, here = _records(results, runs), machine or observe_environment().machine
    plan = [plan_entry(each, records, here, division, is_network=is_network) for each in required]
    missing = missing_runs(plan)
    here_too = [each for each in missing if each[0] in plugins.workloads]
    requests = [_request(*each, chosen, results, round) for each in here_too]
    if output:
        _write_suite(output, requests)
    times = _times(requests, results)
    if as_json:
        echo_json(_json(plan, requests, times))
    else:
        _print(plan, times, plugins.workloads)
        if output and requests:
            echo_line(f"mlbench run --suite {output} makes these runs.")
    return 1 if missing else 0


def _check_network(categories: Sequence[str], output: Path | None) -> None:
    """Raise `UsageError` for options that the network division does not allow."""
    if Category.EDGE in categories:
        raise UsageError("the network division is for datacenter systems.", hint="Leave --category edge out.")
    if output:
        raise UsageError(
            "a suite cannot run on nodes, so no suite file is written.", hint="Make them with `mlbench run --network`."
        )


def _records(results: Path, names: Sequence[str]) -> list[RunRecord]:
    from mlbench.records.store.selection import Filter, select_records

    try:
        return select_records(results, names, Filter())
    except UsageError:
        if names:
            raise
        return []  # there is no run yet


def _request(workload: str, scenario: str, backend: str, results: Path, round_name: str) -> RunRequest:
    from mlbench.planning.requests import RunRequest
    from mlbench.rules.tiers import Tier

    return RunRequest(
        workload=workload,
        backend=backend,
        scenario=scenario,
        profile=Profile.FULL,
        tier=Tier.VALID,
        results=results,
        round=round_name,
    )


def _times(requests: Sequence[RunRequest], results: Path) -> list[ExpectedTime]:
    from mlbench.planning.expected_times import KnownTimes, newest_runs

    known = KnownTimes(record for _, record in newest_runs(results))
    return [known.expect(each) for each in requests]


def _print(plan: Sequence[PlannedEntry], times: Sequence[ExpectedTime], known: Container[str]) -> None:
    from rich.console import Console

    from mlbench.reports.console import short_ids
    from mlbench.reports.table import table
    from mlbench.reports.text_table import wrapped_table

    runs = {each.nearest.run_id: each.nearest for each in plan if each.nearest}
    names = dict(zip(runs, short_ids([*runs.values()]), strict=True))
    rows = []
    for each in plan:
        required = each.required
        tests = " ".join(test.removeprefix("TEST") for test in required.tests) or "-"
        found = " ".join(filter(None, (names.get(each.nearest.run_id) if each.nearest else "", each.obstacle)))
        found = found if required.workload in known else "no workload of mlbench"
        scenario = " or ".join((required.scenario, *required.instead))
        rows.append(("+".join(required.categories), required.model, scenario, tests, found))
    shown = table("", ("category", "entry", "scenario", "tests", "run"), rows)
    Console(width=terminal_width() or 160).print(wrapped_table(shown))
    for line in _sums(plan, times):
        echo_line(line)


def _sums(plan: Sequence[PlannedEntry], times: Sequence[ExpectedTime]) -> Iterator[str]:
    """Yield the served entries of each category, and the duration of missing runs and compliance tests."""
    from mlbench.submission.planning import least_time_of_tests_s, owed_tests, select_needed

    for category in Category:
        if of := [each for each in select_needed(plan) if category in each.required.categories]:
            served = sum(bool(each.run) for each in of)
            yield f"{category}: {served} of {len(of)} entries have a run."
    if times:
        together = ExpectedTime(seconds=sum(each.seconds for each in times), basis=max(each.basis for each in times))
        yield f"{plural(len(times), 'run')} missing: {spell_time(together)}."
    yield f"{plural(len(owed_tests(plan)), 'compliance test')}: more than {rough_time(least_time_of_tests_s(plan))}."


def _json(plan: Sequence[PlannedEntry], requests: Sequence[RunRequest], times: Sequence[ExpectedTime]) -> str:
    from mlbench.submission.planning import least_time_of_tests_s

    entries = [
        {
            "categories": [*each.required.categories],
            "model": each.required.model,
            "scenario": each.required.scenario,
            "variant": each.required.variant,
            "instead": [*each.required.instead],
            "tests": [*each.required.tests],
            "run": each.run.run_id if each.run else None,
            "nearest": each.nearest.run_id if each.nearest else None,
            "obstacle": each.obstacle,
        }
        for each in plan
    ]
    missing = [
        {"workload": each.workload, "backend": each.backend, "scenario": each.scenario, "expected_s": time.seconds}
        for each, time in zip(requests, times, strict=True)
    ]
    facts = {"entries": entries, "missing": missing, "tests_least_s": least_time_of_tests_s(plan)}
    return json.dumps(facts, indent=2)


def _write_suite(file: Path, requests: Sequence[RunRequest]) -> None:
    lines = ["# What a submission lacks, by mlbench submit plan", 'name = "submission"']
    for each in requests:
        lines += ["", "[[runs]]", f'workload = "{each.workload}"', f'backend = "{each.backend}"']
        lines += [f'round = "{each.round}"'] if each.round != DEFAULT_ROUND else []
        lines += [f'scenario = "{each.scenario}"', f'profile = "{each.profile}"', f'tier = "{each.tier}"']
    write_whole(file, "\n".join([*lines, ""]))
