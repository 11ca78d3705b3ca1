"""The verdicts on replies: TEST01, whose replies are those of the accuracy test, and TEST06, about tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.metric import LoggedReply, Metric
from mlbench.contracts.workload import Profile, Variant, Weights, Workload
from mlbench.discovery import Plugins
from mlbench.errors import DataError, describe_error
from mlbench.loadgen.logs import DETAIL, AccuracyLog, read_accuracy, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.records.run_record import RunRecord
from mlbench.rules.audit_config import OF_OUTPUTS, OF_TOKENS, AuditConfig, audit_config
from mlbench.rules.compliance import score_difference_percent
from mlbench.rules.official import round_named
from mlbench.rules.output_compliance import LEAST_LOGGED, OutputCompliance, compare_outputs
from mlbench.rules.own import rules_of
from mlbench.rules.token_compliance import TokenForm, faults_of, verify_official_test06, verify_test06
from mlbench.settings.layers import Settings
from mlbench.submission.auditing.plan import AuditPlan
from mlbench.submission.tree import ACCURACY_LOG

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyVerdict:
    """The verdict on the replies of a test."""

    passed: bool
    official_passed: bool
    """What the official script says; where it fails, the official checker accepts replies that score alike."""
    text: str
    """``verify_accuracy.txt``; it says what ours is."""
    findings: tuple[str, ...]
    """What is wrong, or was found, in words."""
    scores: tuple[str, str] | None = None
    """Where replies differ: lines of the accuracy script, for the accuracy test's replies and for those of the test."""
    scores_alike: bool = False
    """Whether replies that differ score alike, by the checker's limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """Scores of the same samples, in the accuracy test and in the test."""

    lines: tuple[str, str] | None
    findings: tuple[str, ...]
    passed: bool


def judge_outputs(plan: AuditPlan, folder: Path, plugins: Plugins) -> ReplyVerdict:
    """Return whether the replies of TEST01 are those of the accuracy test, or score like them.

    Args:
        plan: the audited run.
        folder: the test's run folder.
        plugins: must hold the workload, whose metric scores replies that differ.

    Raises:
        DataError: a log is missing or corrupt.
    """
    workload = plugins.workload(plan.record.workload)
    reference = AccuracyLog(plan.folder / Mode.ACCURACY / ACCURACY_LOG)
    sampled = read_accuracy(folder / Mode.PERFORMANCE / ACCURACY_LOG)
    target = _audit_config(OF_OUTPUTS, plan, workload).sampling_target
    found = compare_outputs(sampled, reference, least=_least_logged(folder, target))
    scores = _compare_scores(plan, workload, sampled, reference) if found.differing and sampled else None
    passed = found.passed or bool(found.is_complete and scores and scores.passed)
    return ReplyVerdict(
        passed=passed,
        official_passed=found.official_passed,
        text=f"Verifying accuracy.\n{found.counts}TEST {'PASS' if found.passed else 'FAIL'}\n",
        findings=(*_describe(found), *(scores.findings if scores else ())),
        scores=scores.lines if scores else None,
        scores_alike=bool(scores and scores.passed),
    )


def _least_logged(folder: Path, target: int) -> int:
    """Return how many replies a test must have logged.

    LoadGen picks them at random among the queries that it prepared, of which the streams send a part.
    """
    values = read_detail(folder / Mode.PERFORMANCE / DETAIL).values
    try:
        sent, prepared = int(values["result_query_count"]), int(values["generated_query_count"])
        samples = sent * int(values["generated_samples_per_query"])
    except (KeyError, TypeError, ValueError):
        raise DataError(f"corrupt LoadGen log: counts of queries are missing in {folder}.") from None
    return max(1, int(LEAST_LOGGED * min(target * sent / max(1, prepared), samples)))


def _describe(found: OutputCompliance) -> list[str]:
    lines = [f"{found.entries} replies, {len(found.differing)} differ from the accuracy test's"]
    if found.official_passed and found.differing:
        lines.append("the official script compares one byte of each, the first time a sample is met, and passes them")
    if found.absent:
        named = ", ".join(map(str, sorted(set(found.absent))[:_NAMED]))
        lines.append(f"{len(found.absent)} replies are to samples that the accuracy test never answered: {named}")
    if found.entries < found.least:
        lines.append(f"at least {found.least} replies must be logged")
    return lines


def _compare_scores(
    plan: AuditPlan, workload: Workload, sampled: Sequence[LoggedReply], reference: Sequence[LoggedReply]
) -> _Scores:
    """Score the test's replies and the accuracy test's to the same samples.

    Each sample counts once: of several replies in the test one that differs, where there is one.
    """
    metric, accuracy = _metric_of(plan.record, workload), plan.record.accuracy
    if metric is None or not accuracy:
        return _Scores(lines=None, findings=("they have no score that could be close",), passed=False)
    asked, theirs, ours = {reply.index for reply in sampled}, dict[int, LoggedReply](), dict[int, LoggedReply]()
    for reply in reference:
        if reply.index in asked:
            theirs.setdefault(reply.index, reply)
    for reply in sampled:
        kept, wanted = ours.get(reply.index), theirs.get(reply.index)
        if kept is None or (wanted and kept.data == wanted.data):
            ours[reply.index] = reply
    shared = sorted(theirs)
    try:
        one, other = (metric.score([replies[index] for index in shared]) for replies in (theirs, ours))
        lines = metric.line(one), metric.line(other)
    except Exception as error:  # a metric may want all samples, or another form
        reason = f"their scores cannot be compared: {describe_error(error)}"
        return _Scores(lines=None, findings=(reason,), passed=False)
    findings, passed = [], True
    required = [each for each in accuracy.targets if (each.name == plan.variant if plan.variant else each.required)]
    for target in required:
        base, new = one[target.score], other[target.score]
        limit = score_difference_percent(target.score, target.name)
        percent = abs(1 - base / new) * 100 if new else float("inf")
        passed &= percent <= limit
        findings.append(f"{target.score} of these samples is {base:g}, and {new:g} in the test; limit {limit:g} %")
    return _Scores(lines=lines, findings=tuple(findings), passed=passed and bool(required))


def judge_tokens(plan: AuditPlan, folder: Path, plugins: Plugins) -> ReplyVerdict:
    """Return whether the tokens of TEST06 are whole answers with correct counts.

    Raises:
        DataError: the log is missing or corrupt, or the model answers with text.
    """
    workload = plugins.workload(plan.record.workload)
    program = workload.model(_variant_of(plan.record, workload)).program
    if not isinstance(program, GenerationProgram) or program.reply.is_text:
        raise DataError(f"{OF_TOKENS} needs tokens, but {plan.record.workload} answers with text here.")
    replies = read_accuracy(folder / Mode.PERFORMANCE / ACCURACY_LOG)
    form = TokenForm(
        dtype=program.reply.dtype,
        end_tokens=program.decoding.end_tokens,
        has_first=not plan.record.scenario_facts.sends_all_at_once,
        allows_two_ends=round_named(plan.record.round).compliance.allows_two_end_tokens,
    )
    faults = [f"sample {each.index}: {fault}" for each in replies for fault in faults_of(each, form).values()]
    end = form.end_tokens[0] if form.end_tokens else -1
    how: dict[str, Any] = {name: getattr(form, name) for name in ("has_first", "dtype", "allows_two_ends")}
    ours = verify_test06(replies, **how, end_token=end)
    script, by_text = (verify_official_test06(replies, **how, end_token=each) for each in (end, str(end)))
    least = _least_logged(folder, _audit_config(OF_TOKENS, plan, workload).sampling_target)
    findings = [f"{len(replies)} replies, {len(faults)} faults", *faults[:_NAMED]]
    if len(replies) < least:
        findings.append(f"at least {least} replies must be logged")
    if by_text.passed and not script.passed:
        findings.append("the official script passes them where the end token is given on its command line")
    return ReplyVerdict(
        passed=not faults and ours.passed and len(replies) >= least,
        official_passed=script.passed,
        text=ours.report,
        findings=tuple(findings),
    )


def _audit_config(test: str, plan: AuditPlan, workload: Workload) -> AuditConfig:
    of = round_named(plan.record.round)
    return audit_config(test, rules_of(workload, of).name, of)


def _variant_of(record: RunRecord, workload: Workload) -> Variant:
    settings = Settings.of_plain({key: each.value for key, each in record.settings.items()})
    return Variant(
        profile=Profile(record.profile),
        weights=Weights(record.weights),
        options=settings.fill("workload", workload.options),
        round=record.round,
    )


def _metric_of(record: RunRecord, workload: Workload) -> Metric | None:
    variant = _variant_of(record, workload)
    return workload.metric(variant, workload.dataset(variant))
