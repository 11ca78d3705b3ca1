"""The verdict on a result of an official tree: mlbench's rules, and what the official checker demands of its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlbench.contracts.scenario import Scenario
from mlbench.contracts.workload import Profile, Weights
from mlbench.loadgen.logs import DetailLog
from mlbench.records.run_record import RuleRecord, VerdictRecord
from mlbench.rules.facts import RuleResult, RunFacts
from mlbench.rules.round_parts import Category
from mlbench.rules.tiers import RunLimits, Tier
from mlbench.rules.verdict import judge
from mlbench.submission.power import SPL
from mlbench.submission.sources import CONFIGURATION, Sources
from mlbench.submission.tree import ACCURACY, MLPERF_CONF, USER_CONF, Benchmark, ResultEntry
from mlbench.system.documents import is_file

_NO_REPLIES = "an official tree contains no replies"
_NO_EQUAL_ISSUE = (
    f"neither LoadGen's log nor {USER_CONF} nor {MLPERF_CONF} says whether samples were sent equally often"
)
_OPEN = "the open division is not asked to send samples equally often"


def judge_result(sources: Sources) -> VerdictRecord:
    """Return the verdict of the rules on a result."""
    verdict = judge(_facts(sources))
    entry, test = sources.entry, sources.test
    demands = (
        performance_files(entry),
        category(entry, sources.benchmark, sources.scenario, sources.description),
        check_inferred(entry, sources.scenario, sources.measured, sources.description.get("system_type")),
        *(test.rules() if test else ()),
    )
    verdict = dataclasses.replace(verdict, results=(*verdict.results, *filter(None, demands)))
    is_let_off = sources.benchmark.rules.equal_issue and not sources.limits.equal_issue
    return VerdictRecord(
        rules=[RuleRecord.model_validate(result) for result in verdict.results],
        not_applied={**verdict.not_applied, **({"equal_issue": _OPEN} if is_let_off else {})},
        is_valid=verdict.is_valid,
        is_accurate=verdict.is_accurate,
        is_conformant=False,
    )


def judge_log(sources: Sources, detail: DetailLog, limits: RunLimits) -> list[RuleRecord]:
    """Return the verdict of the performance rules on the log of a compliance test.

    Args:
        sources: of the result that the test belongs to.
        detail: the log.
        limits: in force for the test.
    """
    facts = _facts(dataclasses.replace(sources, detail=detail, limits=limits, test=None, equal_issue=None))
    return [RuleRecord.model_validate(result) for result in judge(facts).results]


def _facts(sources: Sources) -> RunFacts:
    rules, test, checks = sources.benchmark.rules, sources.test, sources.entry.round.checks
    return RunFacts(
        workload=rules.workload,
        rules=rules,
        scenario=sources.measured,
        tier=Tier.VALID,
        profile=Profile.FULL,
        weights=Weights.TRAINED,
        limits=sources.limits,
        detail=sources.detail.values,
        loadgen_errors=sources.detail.errors,
        reply_faults=None,
        unchecked_reason=_NO_REPLIES,
        scores=test.printed.scores if test else None,
        targets=sources.targets,
        unscored_reason=f"the tree has no {ACCURACY} that can be read",
        equal_issue_configured=sources.equal_issue,
        equal_issue_unknown=_NO_EQUAL_ISSUE if checks.equal_issue_from == CONFIGURATION else "",
    )


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
