"""The required entries of a system in the closed division, and which stored runs serve them.

An entry is a model in one scenario. A system of a category requires every scenario of each model that it enters, and
each entry requires its compliance tests. Of some scenarios one is enough. Source: submission checkers v4.1 to v6.1,
``get_required``; the files of the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.workload import Profile, Weights
from mlbench.records.run_record import RunRecord
from mlbench.rules.audit_config import OF_TOKENS
from mlbench.rules.entry_demand import Division
from mlbench.rules.official import Round, default_round
from mlbench.rules.round_parts import Category
from mlbench.rules.tiers import Tier
from mlbench.submission.tree import official_benchmarks

_OFFICIAL = {"profile": Profile.FULL, "tier": Tier.VALID, "weights": Weights.TRAINED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredEntry:
    """A model in one scenario."""

    categories: Sequence[Category]
    """Those that require it; one result serves both."""
    model: str
    """The model's folder: ``bert-99.9``."""
    scenario: str
    workload: str
    """Its workload: ``bert``."""
    variant: str
    """The accuracy that it must have: ``99.9``."""
    tests: Sequence[str]
    """Its compliance tests."""
    round: str = DEFAULT_ROUND
    instead: Sequence[str] = ()
    """Other scenarios of the model of which one does in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntry:
    """An entry, and the run that serves it."""

    required: RequiredEntry
    run: RunRecord | None
    """The newest run that serves it; None: there is none."""
    nearest: RunRecord | None
    """The newest of those that come nearest to serving it; None: there is no run of the model in the scenario."""
    obstacle: str
    """What keeps that one from serving it; empty where it does."""


def required_entries(categories: Sequence[Category], of: Round | None = None) -> list[RequiredEntry]:
    """Return all entries that a system of these categories can make in a round, in the order of its rules."""
    found, of = [], of or default_round()
    for model, benchmark in official_benchmarks(of).items():
        rules, wanted = benchmark.rules, benchmark.required(categories)
        if not rules.has_loadgen:
            continue
        for scenario in (name for name in rules.scenarios if name in {*wanted.all_of, *wanted.any_of}):
            of_these = [each for each in categories if scenario in benchmark.scenarios_for([each])]
            found.append(
                RequiredEntry(
                    categories=of_these or [*categories],
                    model=model,
                    scenario=scenario,
                    workload=rules.workload,
                    variant=benchmark.variant,
                    tests=rules.compliance,
                    round=of.name,
                    instead=[] if scenario in wanted.all_of else [name for name in wanted.any_of if name != scenario],
                )
            )
    return found


def plan_entry(
    required: RequiredEntry,
    runs: Sequence[RunRecord],
    machine: str,
    division: str = Division.CLOSED,
    *,
    is_network: bool = False,
) -> PlannedEntry:
    """Return which of some runs serves an entry of a machine's.

    Args:
        required: the entry.
        runs: of any workload.
        machine: as `Environment.machine` has it, of the one that LoadGen is on.
        division: of the tree; open takes runs of all divisions, with whatever accuracy.
        is_network: whether the system is one that is reached over a network, whose runs alone serve it.
    """
    best: tuple[int, RunRecord, str] | None = None
    for run in sorted(runs, key=lambda each: each.created):
        if (run.workload, run.scenario) != (required.workload, required.scenario):
            continue
        checks = list(_checks(run, required, machine, is_open=division == Division.OPEN, is_network=is_network))
        passed = next((number for number, obstacle in enumerate(checks) if obstacle), len(checks))
        if best is None or passed >= best[0]:
            best = (passed, run, "".join(checks[passed : passed + 1]))
    if best is None:
        return PlannedEntry(required=required, run=None, nearest=None, obstacle="no run")
    _, run, obstacle = best
    return PlannedEntry(required=required, run=None if obstacle else run, nearest=run, obstacle=obstacle)


def _checks(run: RunRecord, required: RequiredEntry, machine: str, *, is_open: bool, is_network: bool) -> Iterator[str]:
    """Yield for each demand on a run what keeps it from serving; empty: nothing."""
    yield f"of round {run.round}" if run.round != required.round else ""
    for name, wanted in _OFFICIAL.items():
        found = getattr(run, name)
        yield f"{name} {found}" if found != wanted else ""
    yield "imported from a submission" if run.imported else ""
    travelled = "travelled over a network" if run.network else "did not travel over a network"
    yield f"its samples {travelled}" if bool(run.network) is not is_network else ""
    yield "made on another machine" if run.environment.machine != machine else ""
    yield f"failed: {run.failure.kind if run.failure else run.status}" if run.status != "completed" else ""
    verdict = run.verdict
    yield "INVALID" if verdict is None or not verdict.is_valid else ""
    yield "no accuracy test" if run.accuracy is None else ""
    targets = run.accuracy.targets if run.accuracy else []
    missed = [each.score for each in targets if each.name == required.variant and not each.is_met]
    yield f"misses {required.variant} in {', '.join(missed)}" if missed and not is_open else ""
    yield "made for the open division" if run.is_open and not is_open else ""
    unchecked = verdict.not_applied[run.unchecked[0]] if verdict and run.unchecked else ""
    yield f"its speed was not checked: {unchecked}" if unchecked else ""
    yield "not by the official rules" if verdict is None or not (verdict.is_conformant or unchecked) else ""


def select_needed(plan: Sequence[PlannedEntry]) -> list[PlannedEntry]:
    """Return the entries without those that another one replaces: of some scenarios one is enough, the first.

    That with a run comes first where there is one.
    """
    found: dict[tuple[str, str], PlannedEntry] = {}
    for each in sorted(plan, key=lambda each: each.run is None):
        required = each.required
        if not any((required.model, name) in found for name in required.instead):
            found[required.model, required.scenario] = each
    return [each for each in plan if (each.required.model, each.required.scenario) in found]


def missing_runs(plan: Sequence[PlannedEntry]) -> list[tuple[str, str]]:
    """Return the workloads and scenarios without a run; one run may serve the entries of all accuracies."""
    return [
        *dict.fromkeys((each.required.workload, each.required.scenario) for each in select_needed(plan) if not each.run)
    ]


def owed_tests(plan: Sequence[PlannedEntry]) -> list[tuple[str, str, str]]:
    """Return workload, scenario and name of each compliance test; one serves the entries of all accuracies."""
    required = (each.required for each in select_needed(plan))
    return [*dict.fromkeys((each.workload, each.scenario, test) for each in required for test in each.tests)]


def least_time_of_tests_s(plan: Sequence[PlannedEntry]) -> float:
    """Return the time that all compliance tests take at least: each is as long as a run, but that of tokens."""
    return sum(test != OF_TOKENS for _, _, test in owed_tests(plan)) * Tier.VALID.min_duration_ms / 1000
