"""The verdict: every rule, applied to a run's facts.

A rule is a function of the facts; it returns None where it does not apply. Facts missing in the log never pass.
LoadGen's own result is one rule among others and is never overwritten: the official checker lets some runs through that
LoadGen calls INVALID.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlbench.contracts.workload import Profile, Weights
from mlbench.rules import answers, loadgen_rules, quality, timing
from mlbench.rules.facts import RuleKind, RuleResult, RunFacts, TimedAnswers, Verdict
from mlbench.rules.tiers import Tier

RULES: tuple[Callable[[RunFacts], RuleResult | None], ...] = (
    loadgen_rules.loadgen_result,
    loadgen_rules.logs_agree,
    loadgen_rules.loadgen_errors,
    timing.min_duration,
    timing.min_queries,
    timing.offline_samples,
    loadgen_rules.samples_per_query,
    timing.latency_limit,
    loadgen_rules.token_latencies,
    timing.ttft,
    timing.tpot,
    timing.early_stopping,
    loadgen_rules.seeds,
    loadgen_rules.performance_sample_count,
    loadgen_rules.equal_issue,
    loadgen_rules.pass_order,
    quality.official_files,
    quality.replies_sound,
    quality.replies_agree,
    quality.reply_difference,
    quality.output_difference_measured,
    answers.prompts_whole,
    timing.client_in_time,
    answers.token_compliance,
    answers.answers_whole,
    answers.answers_as_long,
    answers.answers_follow_content,
    answers.timed_answers,
    answers.first_token_computed,
    answers.no_caching,
    answers.speed_holds,
)


def judge(facts: RunFacts) -> Verdict:
    """Apply every rule to a finished performance run and, where there is one, its accuracy run."""
    performance = [_with_source(result, facts) for rule in RULES if (result := rule(facts)) is not None]
    not_applied = {}
    if facts.reply_faults is None:
        not_applied["replies_sound"] = facts.unchecked_reason or "the replies were not checked"
    if facts.replies_checked is None:
        not_applied["replies_agree"] = facts.unchecked_reason or "no accuracy run to compare with"
    not_applied |= _not_checked(facts)
    if facts.scores is None:
        not_applied["accuracy"] = facts.unscored_reason or "no accuracy run"
    if facts.limits.equal_issue and loadgen_rules.equal_issue(facts) is None:
        not_applied["equal_issue"] = facts.equal_issue_unknown
    difference = quality.output_difference(facts)
    if facts.output_difference and not difference:
        not_applied["output_difference"] = f"no bound is known for {facts.output_difference.precision}"
    return Verdict(
        results=(
            *performance,
            *(_with_source(result, facts) for result in quality.accuracy(facts)),
            *([difference] if difference else []),
        ),
        not_applied=not_applied,
        is_official_setup=_is_official_setup(facts),
    )


def _not_checked(facts: RunFacts) -> dict[str, str]:
    """Return the tests with unseen content that were not made, with the reason."""
    found = facts.spot_check
    unscored = {} if facts.timed_answers is None else _unscored(facts.timed_answers)
    if found is None:
        rules = ("answers_follow_content", "no_caching", "speed_holds")
        return dict.fromkeys(rules, facts.unspotted_reason) if facts.unspotted_reason else {}
    missing = unscored
    if not found.asked:
        missing["answers_follow_content"] = "the right answers to changed samples are unknown"
    if found.repeated is None:
        missing["no_caching"] = found.untimed_reason
    if found.claimed is None:
        missing["speed_holds"] = found.untimed_reason or "a long enough burst would have taken too much time"
    return missing


def _unscored(found: TimedAnswers) -> dict[str, str]:
    if answers.is_scored(found):
        return {}
    few = f"{found.known_right} of {found.checked} known samples have the fp32 model's answer"
    return {"timed_answers": found.reason or few}


def _is_official_setup(facts: RunFacts) -> bool:
    return (
        facts.tier is Tier.VALID
        and facts.profile is Profile.FULL
        and facts.weights is Weights.TRAINED
        and facts.scenario.name in facts.rules.scenarios
        and facts.rules.is_official
        and facts.workload == facts.rules.workload
        and not facts.deviations
    )


def _with_source(result: RuleResult, facts: RunFacts) -> RuleResult:
    """Return a result whose limit is the workload's own as such."""
    if facts.rules.is_official or not (result.rule in _OWN_LIMITS or result.kind is RuleKind.ACCURACY):
        return result
    return replace(result, source=f"rules of the workload {facts.workload}")


_OWN_LIMITS = {"min_duration", "min_queries", "offline_samples", "latency_limit", "ttft", "tpot", "equal_issue"} | {
    "performance_sample_count"
}
"""Possible rules of a workload's own."""
