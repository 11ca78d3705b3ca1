"""The official checker's reaction to a rule that fails on a result's logs; it misses known cases.

It takes LoadGen's INVALID of Llama 2 and Mixtral for valid, only logs that early stopping was not met, and does not
compare the number of queries, the samples of a MultiStream query, or the limits that LoadGen was given for tokens.

Source: submission checker v4.1, ``check_performance_dir`` and ``check_accuracy_dir``, and experiments with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlbench.contracts.rules import Tokens
from mlbench.loadgen.logs import DetailLog
from mlbench.records.run_record import RuleRecord
from mlbench.rules.official import WorkloadRules
from mlbench.submission.checking.findings import Reaction
from mlbench.submission.tree import SUMMARY

_React = Callable[[RuleRecord, DetailLog, WorkloadRules], Reaction]


def reaction_to(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    """Return the official checker's reaction to a result of the closed division that fails a rule.

    Args:
        rule: that failed.
        detail: the performance test's log.
        rules: of the workload.
    """
    react = _REACTIONS.get(rule.rule)
    return react(rule, detail, rules) if react else Reaction.REFUSES


def _as_loadgen(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    """It believes LoadGen's own result, but not where tokens are measured."""
    believes = rules.tokens is not Tokens.MEASURED and detail.values.get("result_validity") != "VALID"
    return Reaction.REFUSES if believes else Reaction.ACCEPTS


def _below_limit(key: str) -> _React:
    """It compares what LoadGen was asked for with the limit, and leaves the rest to LoadGen."""

    def react(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
        asked = detail.values.get(key)
        if not isinstance(asked, int | float) or (isinstance(rule.limit, int | float) and asked < rule.limit):
            return Reaction.REFUSES
        return _as_loadgen(rule, detail, rules)

    return react


def _latency_limit(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    """It compares LoadGen's limit with the official one, not the measured latency."""
    asked = detail.values.get("effective_target_latency_ns")
    if not isinstance(asked, int | float) or (isinstance(rule.limit, int | float) and asked > rule.limit):
        return Reaction.REFUSES
    return _as_loadgen(rule, detail, rules)


def _token_latency(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    """It compares the measured percentile, strictly, and not the limit that LoadGen was given."""
    measured, limit = rule.measured, rule.limit
    is_late = not isinstance(measured, int | float) or not isinstance(limit, int | float) or measured >= limit
    return Reaction.REFUSES if is_late else Reaction.ACCEPTS


def _accept(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    return Reaction.ACCEPTS


def _error_lines(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    """It looks at the lines, not at LoadGen's count of them."""
    return Reaction.REFUSES if detail.errors else Reaction.ACCEPTS


def _missing_file(rule: RuleRecord, detail: DetailLog, rules: WorkloadRules) -> Reaction:
    """A missing summary of the accuracy test is only logged."""
    only_summary = rule.measured == 1 and SUMMARY in rule.fix
    return Reaction.ACCEPTS if only_summary else Reaction.REFUSES


_REACTIONS: Mapping[str, _React] = {
    "loadgen_result": _as_loadgen,
    "loadgen_errors": _error_lines,
    "min_duration": _below_limit("effective_min_duration_ms"),
    "min_queries": _as_loadgen,
    "offline_samples": _below_limit("effective_samples_per_query"),
    "samples_per_query": _accept,
    "latency_limit": _latency_limit,
    "ttft": _token_latency,
    "tpot": _token_latency,
    "early_stopping": _as_loadgen,
    "equal_issue": _accept,
    "accuracy_files": _missing_file,
}
"""Rules that are not listed it has as they are."""
