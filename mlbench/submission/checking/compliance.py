"""Demands on the compliance tests of a result of the closed and network divisions.

The official checker looks for words in ``verify_*.txt``. Here the logs of a test must agree with them too.

Source: submission checkers v4.1 to v6.1, ``check_compliance_dir``; compliance/nvidia, verify_performance.py.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlbench.errors import DataError
from mlbench.loadgen.logs import DetailLog, read_detail, result_of
from mlbench.rules.audit_config import seeds_of_test
from mlbench.rules.compliance import AuditComparison, audit_settings, compare_performance, score_difference_percent
from mlbench.submission.checking.accuracy_folder import check_log
from mlbench.submission.checking.findings import CheckedFolder, Reaction, TreeFinding
from mlbench.submission.checking.folder_files import describe_difference, list_files
from mlbench.submission.checking.network_names import explain_name
from mlbench.submission.checking.reactions import JudgedLog, reaction_to
from mlbench.submission.scores import read_printed
from mlbench.submission.sources import Sources
from mlbench.submission.tree import ACCURACY, ACCURACY_LOG, DETAIL, SUMMARY
from mlbench.submission.verdict import judge_log
from mlbench.system.documents import is_file, read_text, refuse_odd_values

VERIFY_PERFORMANCE, VERIFY_ACCURACY = "verify_performance.txt", "verify_accuracy.txt"
BASELINE_SCORES, TEST_SCORES = "baseline_accuracy.txt", "compliance_accuracy.txt"
PASS = "TEST PASS"

_OF_OUTPUTS, _OF_TOKENS = "TEST01", "TEST06"
_TOKEN_LINES = (
    ("First token check pass: True", "First token check pass: Skipped"),
    ("EOS check pass: True",),
    ("Sample length check pass: True",),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Test(CheckedFolder):
    """One compliance test of a result."""

    name: str
    sources: Sources
    """The files of the result that it belongs to."""


def check_compliance(sources: Sources) -> Iterator[TreeFinding]:
    """Yield what is wrong with the compliance tests of a result; the open division needs none."""
    entry, tests = sources.entry, sources.benchmark.rules.compliance
    if entry.division == "open" or not tests:
        return
    folder = entry.compliance
    for name in tests:
        test = _Test(name=name, sources=sources, entry=entry, folder=folder / name)
        if not os.path.isdir(test.folder):
            yield test.finding("compliance_tests", "", f"{entry.model} needs {', '.join(tests)}.")
            continue
        try:
            with refuse_odd_values("its files"):
                yield from _check(test)
        except DataError as error:
            yield test.finding("compliance_log", "", error.message)


def _check(test: _Test) -> Iterator[TreeFinding]:
    described = test.entry.round.compliance.tests.get(test.name)
    if test.name == _OF_TOKENS:
        yield from _tokens(test)
        return
    if described and (file := str(described.values.get("file", ""))):
        yield from _verdict(test, file.removeprefix(f"{test.name}/"))
        return
    yield from _performance(test)
    if test.name == _OF_OUTPUTS:
        yield from _outputs(test)


def _verdict(test: _Test, name: str) -> Iterator[TreeFinding]:
    """Look for the one file that the official checker reads of a test."""
    if not _contains_pass(test.folder / name):
        yield test.finding("compliance_accuracy", name, f"does not say {PASS!r}.")


def _tokens(test: _Test) -> Iterator[TreeFinding]:
    lines = _lines(test.folder / VERIFY_ACCURACY)
    for wanted in _TOKEN_LINES:
        if lines.isdisjoint(wanted):
            message = f"has no line {' or '.join(map(repr, wanted))}." if lines else "is missing or empty."
            yield test.finding("compliance_accuracy", VERIFY_ACCURACY, message)


def _performance(test: _Test) -> Iterator[TreeFinding]:
    is_passed = _contains_pass(test.folder / VERIFY_PERFORMANCE)
    if not is_passed:
        yield test.finding("compliance_performance", VERIFY_PERFORMANCE, f"does not say {PASS!r}.")
    run = "performance/run_1"
    yield from _files(test, run, (SUMMARY, DETAIL), (ACCURACY_LOG,))
    if not is_file(test.folder / run / DETAIL):
        return
    detail = read_detail(test.folder / run / DETAIL)
    if message := explain_name(test.sources.description, detail):
        yield test.finding("sut_name", f"{run}/{DETAIL}", message)
    yield from _rules(test, detail)
    yield from _configuration(test, detail)
    yield from _comparison(test, detail, says_passed=is_passed)


def _files(test: _Test, name: str, required: Sequence[str], allowed: Sequence[str] = ()) -> Iterator[TreeFinding]:
    """Yield which files a folder lacks, and which it must not hold, where the round's checker looks at those."""
    asks = test.entry.round.checks.extra_files
    if difference := describe_difference(test.folder / name, required, allowed):
        finding = test.finding("compliance_files", name, f"{difference}.")
        is_extra = not describe_difference(test.folder / name, required, list_files(test.folder / name))
        yield finding.as_note() if is_extra and not asks else finding


def _rules(test: _Test, detail: DetailLog) -> Iterator[TreeFinding]:
    """The log of a test is judged like that of any run; equal issue is asked of none."""
    seeds = seeds_of_test(test.name, test.entry.round)
    limits = dataclasses.replace(test.sources.limits, seeds=seeds, equal_issue=False)
    log = JudgedLog(detail=detail, rules=test.sources.benchmark.rules, scenario=test.sources.scenario)
    for rule in judge_log(test.sources, detail, limits):
        if rule.required and not rule.passed:
            reaction = reaction_to(rule, log)
            place = f"performance/run_1/{DETAIL}"
            yield test.finding(rule.rule, place, rule.fix or "See the log.", reaction, evidence=rule)


def _configuration(test: _Test, detail: DetailLog) -> Iterator[TreeFinding]:
    """The log shows that LoadGen ran under the configuration of the test, where it logs such things."""
    wrong = [
        f"{key} is {detail.values[key]}, not {value}"
        for key, value in audit_settings(test.name).items()
        if key in detail.values and detail.values[key] != value
    ]
    if wrong:
        place = f"performance/run_1/{DETAIL}"
        yield test.finding("audit_settings", place, f"{'; '.join(wrong)}.", Reaction.ACCEPTS)


def _comparison(test: _Test, detail: DetailLog, *, says_passed: bool) -> Iterator[TreeFinding]:
    scenario, reference = test.sources.measured, test.sources.detail
    logged = detail.values.get("effective_scenario")
    if logged != scenario.loadgen:
        message = f"is a log of {logged}, in a folder of {scenario.name}."
        yield test.finding("compliance_scenario", f"performance/run_1/{DETAIL}", message, Reaction.ACCEPTS)
        return
    values = [result_of(each, scenario).value for each in (reference, detail)]
    if values[0] and values[1]:
        is_inclusive = test.entry.round.compliance.are_test01_bounds_inclusive
        compared = compare_performance(test.name, scenario, values[0], values[1], is_inclusive=is_inclusive)
        if says_passed and not compared.passed:
            message = _describe(compared)
            yield test.finding("compliance_margin", VERIFY_PERFORMANCE, message, Reaction.ACCEPTS)


def _describe(compared: AuditComparison) -> str:
    word = "better" if compared.change > 0 else "worse"
    script = "passes" if compared.official_passed else "fails"
    return (
        f"says {PASS!r}, but by its log the test was {abs(compared.change):.1%} {word} than the run, "
        f"limit {compared.margin:.0%}; the official script {script} these logs with its {compared.official_margin:.0%}."
    )


def _outputs(test: _Test) -> Iterator[TreeFinding]:
    file = test.folder / VERIFY_ACCURACY
    if not is_file(file):
        yield test.finding("compliance_accuracy", VERIFY_ACCURACY, "is missing.")
        return
    is_passed, folder = _contains_pass(file), test.folder / "accuracy"
    wanted = (ACCURACY, ACCURACY_LOG, *(() if is_passed else (BASELINE_SCORES, TEST_SCORES)))
    differences = [*_files(test, "accuracy", wanted)]
    yield from differences
    yield from check_log(CheckedFolder(entry=test.entry, folder=folder), Reaction.ACCEPTS)
    if not is_passed and all(each.is_note for each in differences):
        yield from _scores(test, folder)


def _scores(test: _Test, folder: Path) -> Iterator[TreeFinding]:
    """Where outputs differ from run to run, the scores of the same samples must be close."""
    benchmark, is_plain = test.sources.benchmark, test.entry.round.checks.plain_scores
    for score in dict.fromkeys(target.score for target in benchmark.rules.targets):
        one, other = (read_printed(folder / name, score, are_plain=is_plain) for name in (BASELINE_SCORES, TEST_SCORES))
        limit = score_difference_percent(score, benchmark.variant)
        if not one or not other:
            yield test.finding("compliance_accuracy", "accuracy", f"{score} is missing or 0 in one of the two files.")
        elif (percent := abs(1 - one / other) * 100) > limit:
            message = (
                f"{score} is {one:g} in the accuracy run and {other:g} in the test: {percent:.2g} %, limit {limit:g} %."
            )
            yield test.finding("compliance_accuracy", "accuracy", message)


def _contains_pass(file: Path) -> bool:
    return any(PASS in line for line in _lines(file))


def _lines(file: Path) -> set[str]:
    """Return the lines of a file, without blanks at their ends; none where it cannot be read."""
    try:
        return {line.strip() for line in read_text(file, what="verdict", replaces_errors=True).splitlines()}
    except DataError:
        return set()
