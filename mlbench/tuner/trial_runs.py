"""The run of each trial, and what its record says of late queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlbench.contracts.rules import Tokens
from mlbench.contracts.scenario import Scenario
from mlbench.discovery import Plugins
from mlbench.errors import InvalidRunError
from mlbench.planning.requests import ResolvedRequest, RunRequest, resolve
from mlbench.records.run_record import RunRecord
from mlbench.rules.tiers import Tier
from mlbench.toolkit.rate_search import RateObservation, RateTrial
from mlbench.tuner.tune_plan import PROBE_TAG, PROBES, SEARCHED, TunePlan

_SPEED_QUERIES = 256, 64
"""Samples sent all at once, and queries sent one by one, to know where to begin."""

_BY_RATE = {"loadgen_result", "latency_limit", "ttft", "tpot", "early_stopping"}
"""Rules that another rate may pass."""

_OF_SHORT_RUNS = {"min_duration", "min_queries", "performance_sample_count", *_BY_RATE}
"""Rules that say nothing of a probe."""


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """Makes requests of trials. They are ordinary ones: `mlbench run` with the same settings makes the same run."""

    plan: TunePlan
    plugins: Plugins

    def speed(self, scenario: Scenario) -> ResolvedRequest:
        """Return the run that shows the speed in a scenario without a rate."""
        overrides = {key: value for key, value in self.plan.request.overrides.items() if not key.startswith("load.")}
        overrides["load.min_query_count"] = _SPEED_QUERIES[0 if scenario.sends_all_at_once else 1]
        return self._probe(scenario, overrides)

    def of(self, trial: RateTrial, repeat: int) -> ResolvedRequest:
        """Return the run of a trial, the n-th of its kind at its rate."""
        plan = self.plan
        chosen: dict[str, object] = {SEARCHED: trial.rate_per_s, "load.end_at_late_share": trial.end_at_late_share}
        if trial.is_full:
            overrides = {**plan.base.overrides, **chosen}
            return replace(resolve(asking(plan.base, overrides=overrides), self.plugins), repeat=repeat)
        chosen["load.min_duration_ms"] = round(plan.goal.probe_s * 1000)
        chosen["load.min_query_count"] = plan.goal.probe_queries
        if plan.goal.multiple > plan.goal.probe_queries:  # each loaded sample is sent equally often
            chosen["load.performance_sample_count"] = plan.goal.probe_queries
        return replace(self._probe(plan.scenario, {**plan.base.overrides, **chosen}), repeat=repeat)

    def _probe(self, scenario: Scenario, overrides: dict[str, object]) -> ResolvedRequest:
        return resolve(probing(self.plan.base, scenario=scenario.name, overrides=overrides), self.plugins)

    def observation(self, trial: RateTrial, record: RunRecord) -> RateObservation:
        """Return the result of a run.

        Raises:
            InvalidRunError: it failed, or is INVALID for a reason that another rate would not change.
        """
        _check_rules(record, is_full=trial.is_full)
        assert record.verdict
        answered, late = _late(record, self.plan.limits.tokens)
        return RateObservation(
            rate_per_s=trial.rate_per_s,
            is_full=trial.is_full,
            answered=answered,
            late=late,
            is_valid=record.verdict.is_valid,
            run_id=record.run_id,
        )


def asking(base: RunRequest, **changes: Any) -> RunRequest:
    """Return a request, not resolved, with changes."""
    names = RunRequest.__dataclass_fields__
    return RunRequest(**{**{name: getattr(base, name) for name in names}, **changes})


def probing(base: RunRequest, **changes: Any) -> RunRequest:
    """Return what a request asks for, with changes, as a probe: short, hidden, and for its speed alone."""
    return asking(
        base,
        tier=Tier.SMOKE,
        wants_accuracy=False,
        results=base.results / PROBES,
        tag=PROBE_TAG,
        is_probe=True,
        **changes,
    )


def check_completed(record: RunRecord) -> None:
    """Raise `InvalidRunError` for a run that failed."""
    if record.failure:
        failure = record.failure
        raise InvalidRunError(
            f"{record.run_id}: {failure.kind} during {failure.stage}: {failure.message}",
            hint="No rate can be found while runs fail.",
        )


def _check_rules(record: RunRecord, *, is_full: bool) -> None:
    check_completed(record)
    assert record.verdict
    if record.lateness and record.lateness.is_ended:  # queries without an answer break rules about answers too
        return
    allowed = _BY_RATE if is_full else _OF_SHORT_RUNS
    for rule in record.verdict.rules:
        if rule.kind == "performance" and rule.required and not rule.passed and rule.rule not in allowed:
            raise InvalidRunError(
                f"{record.run_id} is INVALID for a reason that no rate changes: {rule.rule}.", hint=rule.fix
            )


def _late(record: RunRecord, tokens: Tokens) -> tuple[int, int]:
    """Return how many queries were answered, and how many of them late: by LoadGen's count where it has one."""
    assert record.result and record.lateness
    counted = record.lateness
    if counted.is_ended or tokens is Tokens.MEASURED:
        return counted.answered, counted.late
    return record.result.counts.get("queries", counted.answered), record.result.counts.get("late_queries", counted.late)
