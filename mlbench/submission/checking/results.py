"""One result of a tree against the rules: its logs as `mlbench import` judges them, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlbench.contracts.rules import Tokens
from mlbench.errors import DataError
from mlbench.loadgen.logs import read_damaged_detail
from mlbench.loadgen.scenarios import OFFICIAL
from mlbench.records.run_record import ResultRecord, RuleRecord
from mlbench.rules.official import Category
from mlbench.submission.checking.accuracy_folder import check_accuracy_folder
from mlbench.submission.checking.findings import Reaction, TreeFinding
from mlbench.submission.checking.folder_files import describe_difference
from mlbench.submission.checking.implementations import check_equal_issue
from mlbench.submission.checking.metered import check_power
from mlbench.submission.checking.network_names import explain_name
from mlbench.submission.checking.quirks import checker_quirks
from mlbench.submission.checking.reactions import reaction_to
from mlbench.submission.checking.required import is_named_officially
from mlbench.submission.counts import count_samples, make_result
from mlbench.submission.power import SPL
from mlbench.submission.rounds import explain_other_round, find_round
from mlbench.submission.scores import are_met_officially
from mlbench.submission.sources import Sources, read_sources
from mlbench.submission.tree import (
    ACCURACY,
    ACCURACY_LOG,
    DETAIL,
    SUMMARY,
    ResultEntry,
    benchmark_of,
    mapped_model,
    official_benchmarks,
    scenario_of,
)
from mlbench.submission.verdict import judge_result
from mlbench.system.documents import is_file, refuse_odd_values

_LOGGED = frozenset(scenario.loadgen for scenario in OFFICIAL)
_TESTS = ("TEST01", "TEST04", "TEST05", "TEST06")
_ROUND = "round"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCheck:
    """One result, checked by itself."""

    findings: Sequence[TreeFinding]
    sources: Sources | None = None
    """Its files; None where its log cannot be read."""
    result: ResultRecord | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_of_other_round(self) -> bool:
        """Return whether its logs are those of a round that is not judged."""
        return any(each.rule == _ROUND for each in self.findings)


def check_result(entry: ResultEntry) -> ResultCheck:
    """Return what is wrong with the logs and files of a result."""
    try:
        with refuse_odd_values("its files"):
            sources = read_sources(entry)
            samples = count_samples(sources.detail.values, sources.benchmark.rules, sources.scenario)
            result = make_result(sources.detail, sources.benchmark.rules, sources.scenario, samples)
            findings = [*_name_findings(entry, sources), *_rule_findings(sources), *_file_findings(sources)]
            findings += _key_findings(sources)
    except DataError as error:
        return ResultCheck(findings=[_explain_unread(entry, error)])
    scores = dict(sources.test.printed.scores) if sources.test else {}
    return ResultCheck(findings=findings, sources=sources, result=result, scores=scores)


def _explain_unread(entry: ResultEntry, error: DataError) -> TreeFinding:
    """Return the reason why a result cannot be read, such as the log of another scenario."""
    if reason := explain_other_round(find_round(entry)):
        return _finding(entry, _ROUND, "", reason)
    message = error.message.replace(f"{entry.root / entry.path}/", "")
    try:
        detail, rules = read_damaged_detail(entry.performance / DETAIL), benchmark_of(entry).rules
        wanted = scenario_of(entry).name
    except DataError:
        return _finding(entry, "performance_log", "", message)
    logged = detail.values.get("effective_scenario")
    is_of_another = str(logged) in _LOGGED and logged != wanted and not detail.errors
    is_taken = is_of_another and (rules.tokens is Tokens.MEASURED or detail.values.get("result_validity") == "VALID")
    reaction = Reaction.ACCEPTS if is_taken else Reaction.REFUSES
    if is_of_another and logged in checker_quirks().inferred.get(wanted, ()):
        message = f"its log is one of {logged}: the official checker infers a result; measure {wanted} itself."
        return _finding(entry, "inferred", "performance/run_1", message, reaction)
    return _finding(entry, "performance_log", "", message, reaction)


def _name_findings(entry: ResultEntry, sources: Sources) -> Iterator[TreeFinding]:
    name = sources.scenario.name
    if not is_named_officially(entry):
        yield _finding(entry, "scenario_name", "", f"call the folder {name} or {name.lower()}.")
    if tests := [test for test in _TESTS if test in f"{entry.submitter}/{entry.system}/{entry.model}"]:
        reaction = Reaction.REFUSES if "TEST05" in tests else Reaction.ACCEPTS
        message = f"a name contains {tests[0]}, by which the official checker knows a compliance test."
        yield _finding(entry, "test_names", "", message, reaction)
    if message := explain_name(sources.description, sources.detail):
        yield _finding(entry, "sut_name", f"performance/run_1/{DETAIL}", message)
    log = entry.accuracy / DETAIL
    if is_file(log) and (message := explain_name(sources.description, read_damaged_detail(log))):
        yield _finding(entry, "sut_name", f"accuracy/{DETAIL}", message, Reaction.ACCEPTS)
    names = {checker_quirks().names.get(model, model) for model in official_benchmarks()}
    if (mapped := mapped_model(entry)) and mapped not in names:
        known = ", ".join(sorted(names))
        yield _finding(entry, "model_mapping", "", f"is mapped to {mapped}; the official checker knows {known}.")
    yield from _open_category(entry, sources)


def _open_category(entry: ResultEntry, sources: Sources) -> Iterator[TreeFinding]:
    """Yield that a category has no such model, which the official checker asks in the open division too."""
    names = str(sources.description.get("system_type")).split(",")
    known = sources.benchmark.rules.variants[sources.benchmark.variant]
    if entry.division == "open" and {*names} <= {*Category} and not {*names} & {*known}:
        message = f"v4.1 has no {entry.model} for {', '.join(names)}."
        yield _finding(entry, "category", "", message)


def _rule_findings(sources: Sources) -> Iterator[TreeFinding]:
    for rule in judge_result(sources).rules:
        if rule.passed or not rule.required:
            continue
        is_open = sources.entry.division == "open" and rule.kind == "accuracy"
        place = f"accuracy/{ACCURACY}" if rule.kind == "accuracy" else f"performance/run_1/{DETAIL}"
        reaction = Reaction.ACCEPTS if is_open else _reaction(rule, sources)
        message = rule.fix.replace("Try fp32, then another backend.", "") or "See the log."
        yield _finding(sources.entry, rule.rule, place, message, reaction, is_note=is_open, evidence=rule)


def _key_findings(sources: Sources) -> Iterator[TreeFinding]:
    """Yield that a log has no rate of samples: the official checker reads it in addition to a rate of tokens."""
    key = sources.scenario.result_key
    if key not in sources.detail.values:
        place = f"performance/run_1/{DETAIL}"
        yield _finding(
            sources.entry, "result_key", place, f"has no {key}, which LoadGen logs next to the rate of tokens."
        )


def _reaction(rule: RuleRecord, sources: Sources) -> Reaction:
    also = checker_quirks().also_required.get(sources.entry.model, {})
    if rule.rule == "category" and sources.scenario.name in also.get(str(sources.description.get("system_type")), ()):
        return Reaction.ACCEPTS
    if not rule.rule.startswith("accuracy."):
        return reaction_to(rule, sources.detail, sources.benchmark.rules)
    targets = [target for target in sources.targets if target.required]
    is_met = are_met_officially(sources.entry.accuracy / ACCURACY, targets)
    return Reaction.ACCEPTS if is_met else Reaction.REFUSES


def _file_findings(sources: Sources) -> Iterator[TreeFinding]:
    entry = sources.entry
    allowed = (SUMMARY, DETAIL, ACCURACY_LOG, *([SPL] if entry.has_power else []))
    if difference := describe_difference(entry.performance, (), allowed):
        yield _finding(entry, "performance_extra_files", "performance/run_1", f"{difference}.")
    for problem in check_accuracy_folder(entry.accuracy, sources.benchmark, sources.scenario):
        is_lenient = entry.division == "open" and problem.rule != "accuracy_scores"
        yield _finding(
            entry,
            problem.rule,
            f"accuracy/{problem.place}".rstrip("/"),
            problem.message,
            Reaction.ACCEPTS if is_lenient else problem.official,
            is_note=is_lenient,
        )
    if sources.test is None and is_file(entry.accuracy / ACCURACY):
        reasons = [each.reason for each in sources.unread if each.path == entry.accuracy / ACCURACY]
        is_open = entry.division == "open"
        yield _finding(
            entry,
            "accuracy_scores",
            f"accuracy/{ACCURACY}",
            reasons[0] if reasons else "contains no score.",
            Reaction.ACCEPTS if is_open else Reaction.REFUSES,
            is_note=is_open,
        )
    yield from check_equal_issue(entry, sources.benchmark, sources.scenario)
    for power in check_power(entry):
        yield _finding(entry, power.rule, power.place, power.message, power.official)


def _finding(  # noqa: PLR0913 - a finding has as many facts
    entry: ResultEntry,
    rule: str,
    place: str,
    message: str,
    official: Reaction = Reaction.REFUSES,
    *,
    is_note: bool = False,
    evidence: RuleRecord | None = None,
) -> TreeFinding:
    return TreeFinding(
        rule=rule,
        path=str(Path(entry.path) / place),
        message=message,
        loses=entry.path,
        official=official,
        is_note=is_note,
        evidence=evidence,
    )
