"""Rules about LoadGen's settings and its own verdict."""

from __future__ import annotations

from mlbench.contracts.rules import Tokens
from mlbench.rules.facts import RuleResult, RunFacts

_SORTED = 0.5
"""Passes in order give 0, all samples sorted together 1; varying durations change it slightly."""


def loadgen_result(facts: RunFacts) -> RuleResult:
    """LoadGen itself calls the run VALID."""
    measured = facts.detail.get("result_validity")
    passed = measured == "VALID"
    reason = str(facts.detail.get("result_invalid_reason", "")).strip()
    return RuleResult(
        rule="loadgen_result",
        measured=measured,
        limit="VALID",
        passed=passed,
        fix=reason or "See the rules below that failed.",
        source="LoadGen, result_validity",
    )


def logs_agree(facts: RunFacts) -> RuleResult | None:
    """LoadGen's logs agree with themselves and with what was seen of the test from outside."""
    if facts.log_faults is None:
        return None
    count, first = len(facts.log_faults), next(iter(facts.log_faults), "")
    return RuleResult(
        rule="logs_agree",
        measured=count,
        limit=0,
        unit="contradictions",
        passed=count == 0,
        fix=f"Leave LoadGen's logs as they are. First of {count}: {first}.",
        source="mlbench: the log is the measurement",
    )


def loadgen_errors(facts: RunFacts) -> RuleResult:
    """LoadGen logged no error; one invalidates a submission, even where LoadGen says VALID."""
    count = max(len(facts.loadgen_errors), facts.detail.get("num_errors", 0))
    first = facts.loadgen_errors[0] if facts.loadgen_errors else "see the detail log"
    return RuleResult(
        rule="loadgen_errors",
        measured=count,
        limit=0,
        unit="errors",
        passed=count == 0,
        fix=f"LoadGen's first error: {first}",
        source=f"submission checker {facts.rules.round}, has_error",
    )


def samples_per_query(facts: RunFacts) -> RuleResult | None:
    """A query of MultiStream holds eight samples."""
    limit = facts.limits.samples_per_query
    if not facts.scenario.has_query_size or limit is None:
        return None
    measured = facts.detail.get("effective_samples_per_query")
    return RuleResult(
        rule="samples_per_query",
        measured=measured,
        limit=limit,
        unit="samples",
        passed=measured == limit,
        fix=f"Set load.samples_per_query to {limit}.",
        source=f"{facts.rulebook}, Scenarios",
    )


def token_latencies(facts: RunFacts) -> RuleResult | None:
    """Where tokens are measured, LoadGen was configured to."""
    if facts.limits.tokens is not Tokens.MEASURED:
        return None
    measured = facts.detail.get("requested_use_token_latencies")
    return RuleResult(
        rule="token_latencies",
        measured=measured,
        limit=True,
        passed=measured is True,
        fix="Run with LoadGen's use_token_latencies on.",
        source=f"submission checker {facts.rules.round}, requested_use_token_latencies",
    )


def seeds(facts: RunFacts) -> RuleResult:
    """The three seeds are those of the round."""
    wanted = facts.limits.seeds
    limit = (wanted.qsl, wanted.sample_index, wanted.schedule)
    names = ("qsl", "sample_index", "schedule")
    measured = tuple(facts.detail.get(f"effective_{name}_rng_seed") for name in names)
    wrong = [name for name, found, right in zip(names, measured, limit, strict=True) if found != right]
    return RuleResult(
        rule="seeds",
        measured=", ".join(map(str, measured)),
        limit=", ".join(map(str, limit)),
        passed=not wrong,
        fix=f"Run with the {facts.rules.round} seeds; wrong: {', '.join(wrong)}.",
        source=f"mlperf.conf {facts.rules.round}; submission checker",
    )


def performance_sample_count(facts: RunFacts) -> RuleResult:
    """Enough samples were loaded to defeat caches."""
    measured, limit = facts.detail.get("effective_performance_sample_count", 0), facts.limits.performance_sample_count
    return RuleResult(
        rule="performance_sample_count",
        measured=measured,
        limit=limit,
        unit="samples",
        passed=measured >= limit,
        fix=f"Raise load.performance_sample_count from {measured} to {limit}.",
        source=f"submission checker {facts.rules.round}, performance-sample-count; mlperf.conf",
    )


def equal_issue(facts: RunFacts) -> RuleResult | None:
    """Where samples differ much in cost, each is sent equally often.

    LoadGen logs it since July 2024; before, only the configuration has it. Where both have it, both must agree.
    """
    logged = facts.detail.get("effective_sample_concatenate_permutation")
    said = [each for each in (logged, facts.equal_issue_configured) if each is not None]
    if not facts.limits.equal_issue or (facts.equal_issue_unknown and not said):
        return None
    measured = all(each is True for each in said) if said else None
    return RuleResult(
        rule="equal_issue",
        measured=measured,
        limit=True,
        passed=measured is True,
        fix="Run with LoadGen's sample_concatenate_permutation on.",
        source=f"mlperf.conf {facts.rules.round}; submission checker, check_measurement_dir",
    )


def pass_order(facts: RunFacts) -> RuleResult | None:
    """A language model's samples are not sorted across passes over the dataset."""
    measured = facts.length_across_passes
    if measured is None:
        return None
    return RuleResult(
        rule="pass_order",
        measured=round(measured, 3),
        limit=_SORTED,
        unit="of the order",
        passed=measured <= _SORTED,
        fix="The engine sorts prompts by length across passes over the dataset: sort within one pass at most.",
        source=f"{facts.rulebook}: samples of a query may be sorted, not across dataset boundaries for LLMs",
        required=not facts.is_open,
    )
