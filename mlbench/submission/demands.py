"""The official checker's requirements for a result, apart from its numbers: its files and scenario.

Source: submission checkers v4.1 to v6.1, ``check_results_dir``.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.contracts.scenario import Scenario
from mlbench.rules.facts import RuleResult
from mlbench.rules.round_parts import Category
from mlbench.submission.power import SPL
from mlbench.submission.tree import Benchmark, ResultEntry
from mlbench.system.documents import is_file


def performance_files(entry: ResultEntry) -> RuleResult:
    """The performance test left its logs, and the readings of the power meter where power was metered."""
    wanted = (*entry.round.files.performance, *([SPL] if entry.has_power else []))
    missing = [name for name in wanted if not is_file(entry.performance / name)]
    return RuleResult(
        rule="performance_files",
        measured=len(missing),
        limit=0,
        unit="missing",
        passed=not missing,
        fix=f"Add to performance/run_1: {', '.join(missing)}.",
        source=_source(entry),
    )


def category(
    entry: ResultEntry, benchmark: Benchmark, scenario: Scenario, description: Mapping[str, object]
) -> RuleResult | None:
    """The category of the system has the model, its accuracy variant and the scenario; open may have any."""
    system_type = description.get("system_type")
    if entry.division == "open" or system_type is None:
        return None
    names = str(system_type).split(",")
    known = [each for each in Category if each in names]
    scenarios = benchmark.scenarios_for(known)
    return RuleResult(
        rule="category",
        measured=f"{system_type}: {scenario.name}",
        limit=", ".join(sorted(scenarios)) or f"no {entry.model}",
        unit="",
        passed=len(known) == len(names) and scenario.name in scenarios,
        fix=f"Submit {entry.model} {scenario.name} for another system_type, or in the open division.",
        source=_source(entry),
    )


def check_inferred(
    entry: ResultEntry, scenario: Scenario, measured: Scenario, system_type: object
) -> RuleResult | None:
    """A result that is inferred from another scenario's log is one of an edge system; open may have any."""
    if entry.division == "open" or scenario == measured or system_type is None:
        return None
    return RuleResult(
        rule="inferred",
        measured=f"{system_type}: from {measured.name}",
        limit=f"{Category.EDGE}",
        unit="",
        passed=Category.EDGE in str(system_type).split(","),
        fix=f"Measure {scenario.name} itself: results are inferred on {Category.EDGE} systems only.",
        source=f"rules document {entry.round}",
    )


def _source(entry: ResultEntry) -> str:
    return f"submission checker {entry.round}, check_results_dir"
