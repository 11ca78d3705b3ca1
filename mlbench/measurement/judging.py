"""From LoadGen's logs to scores and a verdict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mlbench.contracts.metric import Metric, OutputDifference, Target
from mlbench.contracts.model import Model
from mlbench.contracts.statistics import EngineStatistics
from mlbench.errors import InvalidRunError
from mlbench.loadgen.logs import AccuracyLog, DetailLog, read_accuracy, result_of
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job
from mlbench.measurement.shared_accuracy import read_scores
from mlbench.measurement.token_answers import token_answers
from mlbench.records.run_outcome import NO_ACCURACY_TEST
from mlbench.records.run_record import (
    AccuracyRecord,
    OutputDifferenceRecord,
    ResultRecord,
    RuleRecord,
    TargetRecord,
    VerdictRecord,
)
from mlbench.rules.entry_demand import Division, demanded_targets
from mlbench.rules.facts import RunFacts, SpotCheck, TimedAnswers, Verdict
from mlbench.rules.scoring import Accuracy, Agreement, agreement, differences_measured, score
from mlbench.rules.tiers import RunLimits
from mlbench.rules.verdict import judge
from mlbench.system.documents import first_problem

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of a run's logs."""

    result: ResultRecord
    accuracy: AccuracyRecord | None
    """None: there was nothing to score."""
    verdict: VerdictRecord
    loadgen_version: str


def judge_run(  # noqa: PLR0913 - a verdict looks at all of a run
    job: Job,
    limits: RunLimits,
    detail: DetailLog,
    invalid: Mapping[Mode, Sequence[str]],
    metric: Metric | None,
    *,
    model: Model,
    spots: tuple[SpotCheck | None, str],
    statistics: EngineStatistics,
    length_across_passes: float | None = None,
    log_faults: Sequence[str] | None = None,
    timed: TimedAnswers | None = None,
) -> Judgement:
    """Score the accuracy test's replies, and apply every rule to the performance test's log.

    ``invalid`` are the faults of each test's replies; ``statistics`` are the engine's, of the performance test;
    ``log_faults`` say where its log contradicts itself or what was seen of the test, None: not looked at.

    Raises:
        InvalidRunError: a metric's or rule's value cannot be stored.
    """
    folder = job.folder
    rules = job.rules
    targets = demanded_targets(metric.targets, job.spec.variant, job.division) if metric else ()
    faults = [f"{fault} (in the {mode} test)" for mode, each in invalid.items() for fault in each]
    try:
        accuracy, agreed, apart, unscored = _score_run(folder, metric, targets, faults, job)
    except InvalidRunError as error:  # a reply whose form only the metric can check
        accuracy, agreed, apart, unscored = None, None, None, "a reply cannot be scored"
        faults.append(f"{error} (in the scoring)")
    verdict = judge(
        RunFacts(
            workload=job.workload.name,
            rules=rules,
            scenario=job.scenario,
            tier=job.tier,
            profile=job.variant.profile,
            weights=job.variant.weights,
            limits=limits,
            detail=detail.values,
            loadgen_errors=detail.errors,
            reply_faults=faults,
            replies_checked=agreed.checked if agreed else None,
            replies_differing=agreed.differing if agreed else (),
            reply_difference=agreed.mean if agreed else None,
            reply_difference_limit=agreed.limits.mean if agreed else 0.0,
            unchecked_reason=unscored,
            length_across_passes=length_across_passes,
            log_faults=log_faults,
            timed_answers=timed,
            truncated_prompts=_truncated_prompts(statistics),
            late_clients=statistics.late_clients,
            spot_check=spots[0],
            unspotted_reason=spots[1],
            token_answers=token_answers(job, model, limits),
            scores=accuracy.scores if accuracy else None,
            targets=targets,
            first_wrong=accuracy.first_wrong if accuracy else "",
            is_open=job.division is Division.OPEN,
            deviations=model.deviations,
            unscored_reason=unscored,
            output_difference=accuracy.output_difference if accuracy else None,
            differences_measured=apart,
        )
    )
    result = result_of(detail, job.scenario, token_key=rules.token_key_of(job.scenario))
    try:
        return Judgement(
            result=ResultRecord(**{**dataclasses.asdict(result), "higher_is_better": job.scenario.higher_is_better}),
            accuracy=_accuracy_record(accuracy, job),
            verdict=_verdict_record(verdict),
            loadgen_version=detail.values["loadgen_version"],
        )
    except ValidationError as error:
        part = error.title.removesuffix("Record").lower()
        raise InvalidRunError(f"the run's {part} cannot be stored: {first_problem(error, whole=part)}.") from None


def _truncated_prompts(statistics: EngineStatistics) -> int | str | None:
    """Return the engine's count of truncated prompts; as text if it is not a count."""
    counted, said = statistics.truncated_prompts, statistics.extra.get("truncated_prompts")
    if counted is None:
        return None if said is None else repr(said)[:_SHOWN]
    return counted if counted >= 0 else str(counted)


def _score_run(
    folder: Path, metric: Metric | None, targets: Sequence[Target], faults: Sequence[str], job: Job
) -> tuple[Accuracy | None, Agreement | None, tuple[OutputDifference, OutputDifference] | None, str]:
    """Return scores, agreement and the differences of outputs, or why there are none.

    Raises:
        InvalidRunError: the metric cannot score a reply.
    """
    if metric is None:
        if job.spec.wants_accuracy:
            return None, None, None, f"{job.variant.weights} weights have no accuracy to claim"
        return None, None, None, NO_ACCURACY_TEST
    if faults:
        return None, None, None, "there were invalid replies"
    reference = AccuracyLog(folder / Mode.ACCURACY / "mlperf_log_accuracy.json")
    kept = read_accuracy(folder / Mode.PERFORMANCE / "mlperf_log_accuracy.json")
    earlier = Path(job.spec.accuracy_of) if job.spec.accuracy_of else None
    accuracy = read_scores(earlier, metric, job.plan.precision, targets) if earlier else None
    if not accuracy:
        accuracy = score(metric, reference, job.plan.precision, targets)
        metric.write_artifacts(reference, folder / Mode.ACCURACY)
    precision = job.plan.precision
    apart = differences_measured(metric, kept, reference, precision)
    return accuracy, agreement(metric, kept, reference, precision), apart, ""


def _accuracy_record(accuracy: Accuracy | None, job: Job) -> AccuracyRecord | None:
    if accuracy is None:
        return None
    targets = [
        TargetRecord(**dataclasses.asdict(result.target), value=result.score, is_met=result.is_met)
        for result in accuracy.targets
    ]
    difference = accuracy.output_difference
    return AccuracyRecord(
        scores=dict(accuracy.scores),
        targets=targets,
        line=accuracy.line,
        is_met=accuracy.is_met or job.division is Division.OPEN,
        output_difference=OutputDifferenceRecord.model_validate(difference) if difference else None,
        tested_in=Path(job.spec.accuracy_of).name,
        computed_with=dict(accuracy.computed_with),
    )


def _verdict_record(verdict: Verdict) -> VerdictRecord:
    rules = [
        RuleRecord(**{**dataclasses.asdict(result), "measured": _storable(result.measured)})
        for result in verdict.results
    ]
    return VerdictRecord(
        rules=rules,
        not_applied=dict(verdict.not_applied),
        is_valid=verdict.is_valid,
        is_accurate=verdict.is_accurate,
        is_conformant=verdict.is_conformant,
    )


def _storable(measured: float | int | bool | str | None) -> float | int | bool | str | None:
    """Return what a rule measured; NaN and infinities, which JSON cannot spell, as words."""
    return str(measured) if isinstance(measured, float) and not math.isfinite(measured) else measured
