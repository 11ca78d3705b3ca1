"""One result of a tree against the rules: its logs as `mlbench import` judges them, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlbench.contracts.rules import Tokens
from mlbench.errors import DataError
from mlbench.loadgen.logs import read_damaged_detail
from mlbench.loadgen.scenarios import OFFICIAL
from mlbench.records.run_record import ResultRecord, RuleRecord
from mlbench.rules.official import Category
from mlbench.submission.checking.accuracy_folder import check_accuracy_folder
from mlbench.submission.checking.findings import CheckedFolder, Reaction, TreeFinding
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
    place = CheckedFolder(entry=entry, folder=entry.root / entry.path)
    try:
        with refuse_odd_values("its files"):
            sources = read_sources(entry)
            samples = count_samples(sources.detail, sources.benchmark.rules, sources.scenario)
            result = make_result(sources.detail, sources.benchmark.rules, sources.scenario, samples)
            findings = [*_name_findings(place, sources), *_rule_findings(place, sources)]
            findings += [*_file_findings(place, sources), *_key_findings(place, sources)]
    except DataError as error:
        return ResultCheck(findings=[_explain_unread(place, error)])
    scores = dict(sources.test.printed.scores) if sources.test else {}
    return ResultCheck(findings=findings, sources=sources, result=result, scores=scores)


def _explain_unread(place: CheckedFolder, error: DataError) -> TreeFinding:
    """Return the reason why a result cannot be read, such as the log of another scenario."""
    entry = place.entry
    if reason := explain_other_round(find_round(entry)):
        return place.finding(_ROUND, "", reason)
    try:
        detail, rules = read_damaged_detail(entry.performance / DETAIL), benchmark_of(entry).rules
        wanted = scenario_of(entry).name
    except DataError:
        return place.finding("performance_log", "", error.message)
    logged = detail.values.get("effective_scenario")
    is_of_another = str(logged) in _LOGGED and logged != wanted and not detail.errors
    is_taken = is_of_another and (rules.tokens is Tokens.MEASURED or detail.values.get("result_validity") == "VALID")
    reaction = Reaction.ACCEPTS if is_taken else Reaction.REFUSES
    if is_of_another and logged in checker_quirks().inferred.get(wanted, ()):
        message = f"its log is one of {logged}: the official checker infers a result; measure {wanted} itself."
        return place.finding("inferred", "performance/run_1", message, reaction)
    return place.finding("performance_log", "", error.message, reaction)


def _name_findings(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    entry, name = place.entry, sources.scenario.name
    if not is_named_officially(entry):
        yield place.finding("scenario_name", "", f"call the folder {name} or {name.lower()}.")
    if tests := [test for test in _TESTS if test in f"{entry.submitter}/{entry.system}/{entry.model}"]:
        reaction = Reaction.REFUSES if "TEST05" in tests else Reaction.ACCEPTS
        message = f"a name contains {tests[0]}, by which the official checker knows a compliance test."
        yield place.finding("test_names", "", message, reaction)
    if message := explain_name(sources.description, sources.detail):
        yield place.finding("sut_name", f"performance/run_1/{DETAIL}", message)
    log = entry.accuracy / DETAIL
    if is_file(log) and (message := explain_name(sources.description, read_damaged_detail(log))):
        yield place.finding("sut_name", f"accuracy/{DETAIL}", message, Reaction.ACCEPTS)
    names = {checker_quirks().names.get(model, model) for model in official_benchmarks()}
    if (mapped := mapped_model(entry)) and mapped not in names:
        known = ", ".join(sorted(names))
        yield place.finding("model_mapping", "", f"is mapped to {mapped}; the official checker knows {known}.")
    yield from _open_category(place, sources)


def _open_category(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    """Yield that a category has no such model, which the official checker asks in the open division too."""
    entry = place.entry
    names = str(sources.description.get("system_type")).split(",")
    known = sources.benchmark.rules.variants[sources.benchmark.variant]
    if entry.division == "open" and {*names} <= {*Category} and not {*names} & {*known}:
        message = f"v4.1 has no {entry.model} for {', '.join(names)}."
        yield place.finding("category", "", message)


def _rule_findings(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    for rule in judge_result(sources).rules:
        if rule.passed or not rule.required:
            continue
        is_open = sources.entry.division == "open" and rule.kind == "accuracy"
        file = f"accuracy/{ACCURACY}" if rule.kind == "accuracy" else f"performance/run_1/{DETAIL}"
        reaction = Reaction.ACCEPTS if is_open else _reaction(rule, sources)
        message = rule.fix.replace("Try fp32, then another backend.", "") or "See the log."
        yield place.finding(rule.rule, file, message, reaction, is_note=is_open, evidence=rule)


def _key_findings(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    """Yield that a log has no rate of samples: the official checker reads it in addition to a rate of tokens."""
    key = sources.scenario.result_key
    if key not in sources.detail.values:
        message = f"has no {key}, which LoadGen logs next to the rate of tokens."
        yield place.finding("result_key", f"performance/run_1/{DETAIL}", message)


def _reaction(rule: RuleRecord, sources: Sources) -> Reaction:
    also = checker_quirks().also_required.get(sources.entry.model, {})
    if rule.rule == "category" and sources.scenario.name in also.get(str(sources.description.get("system_type")), ()):
        return Reaction.ACCEPTS
    if not rule.rule.startswith("accuracy."):
        return reaction_to(rule, sources.detail, sources.benchmark.rules)
    targets = [target for target in sources.targets if target.required]
    is_met = are_met_officially(sources.entry.accuracy / ACCURACY, targets)
    return Reaction.ACCEPTS if is_met else Reaction.REFUSES


def _file_findings(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    entry = place.entry
    allowed = (SUMMARY, DETAIL, ACCURACY_LOG, *([SPL] if entry.has_power else []))
    if difference := describe_difference(entry.performance, (), allowed):
        yield place.finding("performance_extra_files", "performance/run_1", f"{difference}.")
    accuracy = CheckedFolder(entry=entry, folder=entry.accuracy)
    for found in check_accuracy_folder(accuracy, sources.benchmark, sources.scenario):
        is_lenient = entry.division == "open" and found.rule != "accuracy_scores"
        yield replace(found, official=Reaction.ACCEPTS, is_note=True) if is_lenient else found
    if sources.test is None and is_file(entry.accuracy / ACCURACY):
        reasons = [each.reason for each in sources.unread if each.path == entry.accuracy / ACCURACY]
        message, is_open = reasons[0] if reasons else "contains no score.", entry.division == "open"
        reaction = Reaction.ACCEPTS if is_open else Reaction.REFUSES
        yield place.finding("accuracy_scores", f"accuracy/{ACCURACY}", message, reaction, is_note=is_open)
    yield from check_equal_issue(entry, sources.benchmark, sources.scenario)
    yield from check_power(place)
