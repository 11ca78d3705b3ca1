"""One result of a tree against the rules: its logs as `mlbench import` judges them, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlbench.contracts.rules import Tokens
from mlbench.errors import DataError
from mlbench.loadgen.logs import read_damaged_detail
from mlbench.loadgen.scenarios import OFFICIAL
from mlbench.records.run_record import ResultRecord, RuleRecord
from mlbench.rules.round_parts import Category
from mlbench.submission.checking.accuracy_folder import check_accuracy_folder
from mlbench.submission.checking.findings import CheckedFolder, Reaction, TreeFinding
from mlbench.submission.checking.folder_files import describe_difference, list_files
from mlbench.submission.checking.implementations import check_equal_issue
from mlbench.submission.checking.network_names import explain_name
from mlbench.submission.checking.reactions import JudgedLog, reaction_to
from mlbench.submission.checking.required import is_named_officially
from mlbench.submission.counts import count_samples, make_result
from mlbench.submission.power import SPL, read_watts
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
ROUND = "round"


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
        return any(each.rule == ROUND for each in self.findings)


def check_result(entry: ResultEntry) -> ResultCheck:
    """Return what is wrong with the logs and files of a result."""
    place = CheckedFolder(entry=entry, folder=entry.root / entry.path)
    try:
        with refuse_odd_values("its files"):
            sources = read_sources(entry)
            samples = count_samples(sources.detail, sources.benchmark.rules, sources.measured)
            result = make_result(
                sources.detail, sources.benchmark.rules, sources.scenario, samples, measured=sources.measured
            )
            findings = [*_name_findings(place, sources), *_rule_findings(place, sources)]
            findings += [*_file_findings(place, sources), *_key_findings(place, sources)]
    except DataError as error:
        return ResultCheck(findings=[_explain_unread(place, error)])
    scores = dict(sources.test.printed.scores) if sources.test else {}
    return ResultCheck(findings=findings, sources=sources, result=result, scores=scores)


def _explain_unread(place: CheckedFolder, error: DataError) -> TreeFinding:
    """Return the reason why a result cannot be read, such as the log of another scenario."""
    entry, checks = place.entry, place.entry.round.checks
    if reason := explain_other_round(find_round(entry)):
        return place.finding(ROUND, "", reason)
    try:
        detail, rules = read_damaged_detail(entry.performance / DETAIL), benchmark_of(entry).rules
        wanted = scenario_of(entry).name
    except DataError:
        return place.finding("performance_log", "", error.message)
    logged = detail.values.get("effective_scenario")
    is_of_another = str(logged) in _LOGGED and logged != wanted and not detail.errors
    is_believed = checks.result_validity and (checks.token_result_validity or rules.tokens is not Tokens.MEASURED)
    is_inferred = (logged, wanted) in checks.inferred
    is_wrong = is_of_another and not (is_inferred and checks.counts_inferred)  # else the inference failed
    is_taken = is_wrong and (not is_believed or detail.values.get("result_validity") == "VALID")
    reaction = Reaction.ACCEPTS if is_taken else Reaction.REFUSES
    if is_wrong and is_inferred:
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
    of = entry.round
    names = {of.checks.names.get(model, model) for model in official_benchmarks(of)}
    if (mapped := mapped_model(entry)) and mapped not in names:
        known = ", ".join(sorted(names))
        yield place.finding("model_mapping", "", f"is mapped to {mapped}; the official checker knows {known}.")
    yield from _open_category(place, sources)


def _open_category(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    """Yield that a category has no such model, which the official checker asks in the open division too."""
    entry = place.entry
    if entry.division != "open" and sources.benchmark.rules.name in entry.round.checks.unlisted:
        message = f"the official checker of {entry.round} has no row for {entry.model}, and ends with a traceback."
        yield place.finding("category_row", "", message, Reaction.CRASHES, is_note=True)
    names = str(sources.description.get("system_type")).split(",")
    known = sources.benchmark.rules.variants[sources.benchmark.variant]
    if entry.division == "open" and {*names} <= {*Category} and not {*names} & {*known}:
        message = f"{entry.round} has no {entry.model} for {', '.join(names)}."
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
    key = sources.measured.result_key
    if key not in sources.detail.values:
        message = f"has no {key}, which LoadGen logs next to the rate of tokens."
        yield place.finding("result_key", f"performance/run_1/{DETAIL}", message)


def _reaction(rule: RuleRecord, sources: Sources) -> Reaction:
    entry, rules, checks = sources.entry, sources.benchmark.rules, sources.entry.round.checks
    if rule.rule == "category":
        return _category_reaction(sources)
    if not rule.rule.startswith("accuracy."):
        log = JudgedLog(detail=sources.detail, rules=rules, scenario=sources.scenario, is_open=entry.division == "open")
        return reaction_to(rule, log)
    targets = [target for target in sources.targets if target.required]
    is_met = are_met_officially(entry.accuracy / ACCURACY, targets, are_plain=checks.plain_scores)
    return Reaction.ACCEPTS if is_met else Reaction.REFUSES


def _category_reaction(sources: Sources) -> Reaction:
    """It may want what the rules do not, and may not survive a model in a category that has none."""
    checks, system_type = sources.entry.round.checks, str(sources.description.get("system_type"))
    if sources.scenario.name in checks.also_required.get(sources.entry.model, {}).get(system_type, ()):
        return Reaction.ACCEPTS
    known = sources.benchmark.rules.variants[sources.benchmark.variant]
    is_listed = not {*system_type.split(",")}.isdisjoint(known)
    return Reaction.REFUSES if is_listed else Reaction(checks.wrong_category)


def _file_findings(place: CheckedFolder, sources: Sources) -> Iterator[TreeFinding]:
    entry = place.entry
    allowed = (*entry.round.files.performance, ACCURACY_LOG, *([SPL] if entry.has_power else []))
    if difference := describe_difference(entry.performance, (), allowed):
        finding = place.finding("performance_extra_files", "performance/run_1", f"{difference}.")
        yield finding if entry.round.checks.extra_files else finding.as_note()
    accuracy = CheckedFolder(entry=entry, folder=entry.accuracy)
    for found in check_accuracy_folder(accuracy, sources.benchmark, sources.measured):
        is_lenient = entry.division == "open" and found.rule != "accuracy_scores"
        yield found.as_note() if is_lenient else found
    if sources.test is None and is_file(entry.accuracy / ACCURACY):
        reasons = [each.reason for each in sources.unread if each.path == entry.accuracy / ACCURACY]
        message, is_open = reasons[0] if reasons else "contains no score.", entry.division == "open"
        reaction = Reaction.ACCEPTS if is_open else Reaction.REFUSES
        yield place.finding("accuracy_scores", f"accuracy/{ACCURACY}", message, reaction, is_note=is_open)
    yield from check_equal_issue(entry, sources.benchmark, sources.measured)
    yield from check_power(place)


_POWER_FILES = ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")
_METER_FILES = ("analyzer_table", "power_settings")
"""Each with any ending, in the scenario's measurements folder or up to three levels above it."""


def check_power(place: CheckedFolder) -> Iterator[TreeFinding]:
    """Yield what is wrong with the files about power of a result that has any; the power group's script checks more.

    Source: submission checker v4.1, ``check_power_dir`` and ``check_measurement_dir``.
    """
    entry = place.entry
    if not entry.has_power:
        return
    performance = entry.performance.parent
    if difference := describe_difference(performance / "power", _POWER_FILES):
        yield place.finding("power_files", "performance/power", f"{difference}.")
    if difference := describe_difference(performance / "ranging", (SUMMARY, DETAIL, SPL), (ACCURACY_LOG,)):
        yield place.finding("ranging_files", "performance/ranging", f"{difference}.")
    above = [entry.measurements, *entry.measurements.parents[:3]]
    for wanted in _METER_FILES:
        if not any(name.startswith(f"{wanted}.") for folder in above for name in list_files(folder)):
            message = f"there is no {wanted}.* in the measurements folder, or up to three levels above it."
            yield place.finding("meter_files", "", message)
    try:
        read_watts(entry.performance / SPL, read_damaged_detail(entry.performance / DETAIL))
    except DataError as error:
        message = error.message.replace(f"{entry.performance}/", "")
        yield place.finding("power_readings", f"performance/run_1/{SPL}", message)
