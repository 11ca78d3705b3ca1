"""The verdict on a compliance test that ran, from its logs and the audited run's: ours, and the official script's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mlbench.contracts.scenario import Scenario
from mlbench.discovery import Plugins
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail, result_of
from mlbench.loadgen.settings import Mode
from mlbench.measurement.verification import verify
from mlbench.records.facts import CONDITIONS
from mlbench.records.run_record import RunRecord, read
from mlbench.rules.audit_config import OF_OUTPUTS, OF_TOKENS, seeds_of_test
from mlbench.rules.compliance import AuditComparison, audit_settings, compare_performance
from mlbench.rules.official import round_named
from mlbench.submission.auditing.plan import AuditPlan
from mlbench.submission.auditing.reply_tests import ReplyVerdict, judge_outputs, judge_tokens

_SAME = ("hardware", "data", "model", "loadgen", "traffic")
"""Facts in which a test and the run that it audits must be equal."""

_UNLIKE = "the test's record differs from its logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerdict:
    """The verdict on a test that ran."""

    test: str
    run_id: str
    repeat: int
    """Its number among the repeats of this test on this run, from 1."""
    folder: Path
    """Its run folder."""
    problems: tuple[str, ...] = ()
    """Reason why it fails, in words; what the numbers below say is not repeated."""
    performance: AuditComparison | None = None
    """Its speed beside the run's; None: the test is not about speed, or has no result."""
    replies: ReplyVerdict | None = None
    """Its replies; None: the test is not about replies, or failed before it had any."""
    official_passed: bool
    """The official scripts' verdict on the same logs."""
    checker_passed: bool | None = None
    """What the official checker says where it does not follow the script: replies that differ may score alike. None: it
    follows the script."""
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        parts = [part.passed for part in (self.performance, self.replies) if part]
        object.__setattr__(self, "passed", bool(parts) and all(parts) and not self.problems)


def judge_test(plan: AuditPlan, folder: Path, plugins: Plugins) -> AuditVerdict:
    """Return the verdict on a test that ran.

    Args:
        plan: the audited run.
        folder: the test's run folder.
        plugins: must hold the run's.

    Raises:
        DataError: a log is missing or corrupt.
    """
    record = read(folder)
    assert record.audit
    verdict = partial(AuditVerdict, test=record.audit.test, run_id=record.run_id, repeat=record.repeat, folder=folder)
    if record.failure:
        return verdict(problems=(f"the test failed: {record.failure.message}",), official_passed=False)
    detail = read_detail(folder / Mode.PERFORMANCE / DETAIL)
    reference = read_detail(plan.folder / Mode.PERFORMANCE / DETAIL)
    problems = [
        *_differences(plan.record, record),
        *(f"{_UNLIKE}: {each}" for each in verify(record, folder, plugins).differences),
        *_wrong_settings(record, detail),
        *_broken_rules(record),
    ]
    if record.audit.test == OF_TOKENS:
        replies = judge_tokens(plan, folder, plugins)
        return verdict(problems=tuple(problems), replies=replies, official_passed=replies.official_passed)
    compared = _compare(record, plugins.scenario(record.scenario), reference, detail)
    by_speed = compared is not None and compared.official_passed and _is_valid(reference) and _is_valid(detail)
    if compared is None:
        problems.append("LoadGen gives no result: too few queries")
    of_outputs = judge_outputs(plan, folder, plugins) if record.audit.test == OF_OUTPUTS else None
    return verdict(
        problems=tuple(problems),
        performance=compared,
        replies=of_outputs,
        official_passed=by_speed and (of_outputs is None or of_outputs.official_passed),
        checker_passed=by_speed and of_outputs.scores_alike if of_outputs and not of_outputs.official_passed else None,
    )


def _compare(record: RunRecord, scenario: Scenario, reference: DetailLog, detail: DetailLog) -> AuditComparison | None:
    assert record.audit
    one, other = (result_of(each, scenario).value for each in (reference, detail))
    is_inclusive = round_named(record.round).compliance.are_test01_bounds_inclusive
    test = record.audit.test
    return compare_performance(test, scenario, one, other, is_inclusive=is_inclusive) if one and other else None


def _is_valid(detail: DetailLog) -> bool:
    return detail.values.get("result_validity") == "VALID"


def _differences(audited: RunRecord, record: RunRecord) -> list[str]:
    """Return in what the test's conditions are not the run's."""
    values = ((name, CONDITIONS[name](audited), CONDITIONS[name](record)) for name in _SAME)
    return [f"{name} differs from the run's: {one}, then {other}" for name, one, other in values if one != other]


def _wrong_settings(record: RunRecord, detail: DetailLog) -> list[str]:
    """Return what of the log shows that LoadGen did not run under the configuration of the test."""
    assert record.audit
    seeds = seeds_of_test(record.audit.test, round_named(record.round))
    wanted = {
        "effective_scenario": record.scenario_facts.loadgen,
        "effective_test_mode": "PerformanceOnly",
        "effective_qsl_rng_seed": seeds.qsl,
        "effective_sample_index_rng_seed": seeds.sample_index,
        "effective_schedule_rng_seed": seeds.schedule,
        **audit_settings(record.audit.test),
    }
    found = {key: detail.values.get(key) for key in wanted}
    return [f"{key} is {found[key]}, not {value}" for key, value in wanted.items() if found[key] != value]


def _broken_rules(record: RunRecord) -> list[str]:
    """Return the rules that the test's run breaks; TEST06 is about 100 samples, and no run by the rules."""
    assert record.audit
    assert record.verdict
    rules = [each for each in record.verdict.rules if each.required and not each.passed]
    if record.audit.test == OF_TOKENS:
        rules = [each for each in rules if each.rule == "replies_sound"]
    return [f"the test breaks {each.rule}: {each.measured}, limit {each.limit}" for each in rules]
