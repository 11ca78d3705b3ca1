"""The verdict: every rule, applied to a run's facts.

A rule is a function of the facts; it returns None where it does not apply. Facts missing in the log never pass.
LoadGen's own result is one rule among others and is never overwritten: the official checker lets some runs through that
LoadGen calls INVALID.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mlbench.contracts.workload import Profile, Weights
from mlbench.rules.answers import (
    answers_as_long,
    answers_follow_content,
    answers_whole,
    first_token_computed,
    is_scored,
    no_caching,
    prompts_whole,
    speed_holds,
    timed_answers,
    token_compliance,
)
from mlbench.rules.facts import RuleKind, RuleResult, RunFacts, TimedAnswers, Verdict
from mlbench.rules.loadgen_rules import (
    equal_issue,
    loadgen_errors,
    loadgen_result,
    logs_agree,
    pass_order,
    performance_sample_count,
    samples_per_query,
    seeds,
    token_latencies,
)
from mlbench.rules.quality import (
    accuracy,
    official_files,
    output_difference,
    output_difference_measured,
    replies_agree,
    replies_sound,
    reply_difference,
)
from mlbench.rules.tiers import Tier
from mlbench.rules.timing import (
    client_in_time,
    early_stopping,
    latency_limit,
    min_duration,
    min_queries,
    offline_samples,
    tpot,
    ttft,
)

RULES: tuple[Callable[[RunFacts], RuleResult | None], ...] = (
    loadgen_result,
    logs_agree,
    loadgen_errors,
    min_duration,
    min_queries,
    offline_samples,
    samples_per_query,
    latency_limit,
    token_latencies,
    ttft,
    tpot,
    early_stopping,
    seeds,
    performance_sample_count,
    equal_issue,
    pass_order,
    official_files,
    replies_sound,
    replies_agree,
    reply_difference,
    output_difference_measured,
    prompts_whole,
    client_in_time,
    token_compliance,
    answers_whole,
    answers_as_long,
    answers_follow_content,
    timed_answers,
    first_token_computed,
    no_caching,
    speed_holds,
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
    if facts.limits.equal_issue and equal_issue(facts) is None:
        not_applied["equal_issue"] = facts.equal_issue_unknown
    difference = output_difference(facts)
    if facts.output_difference and not difference:
        not_applied["output_difference"] = f"no bound is known for {facts.output_difference.precision}"
    return Verdict(
        results=(
            *performance,
            *(_with_source(result, facts) for result in accuracy(facts)),
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
    if is_scored(found):
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
