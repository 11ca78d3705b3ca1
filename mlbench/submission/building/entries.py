"""The entries of a tree that stored runs make, with the run of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlbench.errors import UsageError
from mlbench.rules.entry_demand import Division
from mlbench.submission.building.machines import check_records, check_test
from mlbench.submission.building.stored import StoredRun
from mlbench.submission.building.system import System
from mlbench.submission.planning import PlannedEntry, RequiredEntry, plan_entry, required_entries
from mlbench.submission.tree import official_benchmarks


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEntry:
    """An entry and its run."""

    required: RequiredEntry
    run: StoredRun


def choose_entries(
    system: System, runs: Sequence[StoredRun], variants: Sequence[str], *, are_named: bool
) -> list[BuiltEntry]:
    """Return the entries that runs make, each with the newest run that serves it.

    A run makes an entry of each variant whose accuracy it meets; with ``variants``, of these alone, and it must.

    Args:
        system: with its category.
        runs: to choose among.
        variants: that models with several are entered for: ``99``, ``99.9``; none: all that are met.
        are_named: whether the user named these runs: then each of their workloads and scenarios must make an entry.

    Raises:
        UsageError: an entry would not pass, with the reason.
    """
    if not runs:
        raise UsageError("there is no run to make a tree of.", hint="`mlbench submit plan` lists the runs to make.")
    candidates = _candidates(system, runs, variants)
    serving = [plan.run for _, plan in candidates if plan.run]
    if are_named or not serving:
        _check_served(candidates, runs, variants)
    check_records(system, serving)
    by_id = {each.record.run_id: each for each in runs}
    entries = [BuiltEntry(required=required, run=by_id[plan.run.run_id]) for required, plan in candidates if plan.run]
    if system.division != Division.OPEN:
        _check_scenarios(system, entries, candidates)
        _check_tests(entries)
    return entries


def _candidates(
    system: System, runs: Sequence[StoredRun], variants: Sequence[str]
) -> list[tuple[RequiredEntry, PlannedEntry]]:
    records = [each.record for each in runs]
    made = {(each.workload, each.scenario) for each in records}
    benchmarks = official_benchmarks(system.round)
    several = {name for name, each in benchmarks.items() if len(each.rules.variants) > 1}
    found = []
    for required in required_entries(system.categories, system.round):
        if variants and required.model in several and required.variant not in variants:
            continue
        same = [each for each in records if (each.workload, each.scenario) == (required.workload, required.scenario)]
        if (required.workload, required.scenario) in made:
            machines = dict.fromkeys(each.environment.machine for each in same)
            plans = [
                plan_entry(required, same, machine, system.division, is_network=system.is_network)
                for machine in machines
            ]
            served = [each for each in plans if each.run]
            found.append((required, max(served, key=_created) if served else plans[0]))
    return found


def _created(plan: PlannedEntry) -> float:
    return plan.run.created.timestamp() if plan.run else 0.0


def _check_served(
    candidates: Sequence[tuple[RequiredEntry, PlannedEntry]], runs: Sequence[StoredRun], variants: Sequence[str]
) -> None:
    """Raise where a workload in a scenario makes no entry, or a variant that was asked for is not met."""
    served = {(required.workload, required.scenario) for required, plan in candidates if plan.run}
    for required, plan in candidates:
        is_made = (required.workload, required.scenario) in served
        if not plan.run and plan.nearest and (not is_made or required.variant in variants):
            raise UsageError(
                f"{required.model} {required.scenario} would not pass: run {plan.nearest.run_id}: {plan.obstacle}.",
                hint="`mlbench submit plan` lists the needs of each entry.",
            )
    for run in runs:
        if (run.record.workload, run.record.scenario) not in served:
            raise UsageError(
                f"run {run.record.run_id} makes no entry: {run.record.workload} {run.record.scenario} is not one of "
                "the category and variant.",
                hint="See --category and --variant.",
            )


def _check_scenarios(
    system: System, entries: Sequence[BuiltEntry], candidates: Sequence[tuple[RequiredEntry, PlannedEntry]]
) -> None:
    for model, benchmark in official_benchmarks(system.round).items():
        there = {each.required.scenario for each in entries if each.required.model == model}
        missing = benchmark.required(system.categories).missing(there)
        if there and missing:
            why = {required.scenario: plan.obstacle for required, plan in candidates if required.model == model}
            reasons = ", ".join(f"{each} ({why.get(each, 'no run')})" for each in missing)
            raise UsageError(
                f"{model} lacks scenarios that its category requires: {reasons}.",
                hint="Run them, name other runs, or leave the variant out with --variant.",
            )


def _check_tests(entries: Sequence[BuiltEntry]) -> None:
    for entry, test in _owed_tests(entries):
        if test not in entry.run.tests:
            run = entry.run.record.run_id
            nodes = " --network HOST..." if entry.run.record.network else ""
            raise UsageError(
                f"{entry.required.model} {entry.required.scenario} needs {test}, and run {run} was not tested with it.",
                hint=f"mlbench audit {run} --test {test}{nodes}",
            )
        check_test(entry.run, test)


def _owed_tests(entries: Sequence[BuiltEntry]) -> Iterator[tuple[BuiltEntry, str]]:
    return ((entry, test) for entry in entries for test in entry.required.tests)
