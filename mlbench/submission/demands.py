"""The official checker's requirements for a result, apart from its numbers: its files and scenario.

Source: submission checker v4.1, ``check_results_dir``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlbench.contracts.scenario import Scenario
from mlbench.rules.facts import RuleResult
from mlbench.rules.official import Category
from mlbench.submission.power import SPL
from mlbench.submission.tree import DETAIL, SUMMARY, Benchmark, ResultEntry
from mlbench.system.documents import is_file

_SOURCE = "submission checker v4.1, check_results_dir"


def performance_files(entry: ResultEntry) -> RuleResult:
    """The performance test left its logs, and the readings of the power meter where power was metered."""
    wanted = (SUMMARY, DETAIL, SPL) if entry.has_power else (SUMMARY, DETAIL)
    missing = [name for name in wanted if not is_file(entry.performance / name)]
    return RuleResult(
        rule="performance_files",
        measured=len(missing),
        limit=0,
        unit="missing",
        passed=not missing,
        fix=f"Add to performance/run_1: {', '.join(missing)}.",
        source=_SOURCE,
    )


def category(
    entry: ResultEntry, benchmark: Benchmark, scenario: Scenario, description: Mapping[str, Any]
) -> RuleResult | None:
    """The category of the system has the model, its accuracy variant and the scenario; open may have any."""
    system_type = description.get("system_type")
    if entry.division == "open" or system_type is None:
        return None
    names = str(system_type).split(",")
    known = [each for each in Category if each in names]
    consumers = [each for each in known if each in benchmark.rules.variants[benchmark.variant]]
    scenarios = {name for each in consumers for name in benchmark.rules.category_scenarios[each]}
    return RuleResult(
        rule="category",
        measured=f"{system_type}: {scenario.name}",
        limit=", ".join(sorted(scenarios)) or f"no {entry.model}",
        unit="",
        passed=len(known) == len(names) and scenario.name in scenarios,
        fix=f"Submit {entry.model} {scenario.name} for another system_type, or in the open division.",
        source=_SOURCE,
    )
