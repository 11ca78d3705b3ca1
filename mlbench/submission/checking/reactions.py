"""The official checker's reaction to a rule that fails on a result's logs; it misses known cases.

Each round's `CheckerScope` says what its checker looks at. None compares the number of queries, the samples of a
MultiStream query, or the limits that LoadGen was given for tokens.

Source: submission checkers v4.1 to v6.1, ``check_performance_dir`` and ``check_accuracy_dir``, and experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlbench.contracts.rules import Tokens
from mlbench.contracts.scenario import Scenario
from mlbench.loadgen.logs import DetailLog
from mlbench.records.run_record import RuleRecord
from mlbench.rules.official import WorkloadRules
from mlbench.rules.round_parts import CheckerScope
from mlbench.rules.timing import NS_PER_MS
from mlbench.submission.checking.findings import Reaction
from mlbench.submission.tree import SUMMARY


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """The log of a test that was judged."""

    detail: DetailLog
    rules: WorkloadRules
    scenario: Scenario
    """That of the folder."""
    is_open: bool = False

    @property
    def checks(self) -> CheckerScope:
        """What the round's checker looks at."""
        return self.rules.round.checks


_React = Callable[[RuleRecord, JudgedLog], Reaction]


def reaction_to(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """Return the official checker's reaction to a result that fails a rule.

    Args:
        rule: that failed.
        log: of the performance test.
    """
    react = _REACTIONS.get(rule.rule)
    return react(rule, log) if react else Reaction.REFUSES


def _refuse_if(condition: bool) -> Reaction:
    return Reaction.REFUSES if condition else Reaction.ACCEPTS


def _as_loadgen(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """It believes LoadGen's own result if it looks at it, which it may not do where tokens are measured."""
    believes = log.checks.result_validity and (
        log.checks.token_result_validity or log.rules.tokens is not Tokens.MEASURED
    )
    return _refuse_if(believes and log.detail.values.get("result_validity") != "VALID")


def _early_stopping(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """It may look at LoadGen's own test."""
    if log.rules.round.early_stopping.decides and log.detail.values.get("early_stopping_met") is not True:
        return Reaction.REFUSES
    return _as_loadgen(rule, log)


def _below_limit(key: str) -> _React:
    """It compares what LoadGen was asked for with the limit, and leaves the rest to LoadGen."""

    def react(rule: RuleRecord, log: JudgedLog) -> Reaction:
        asked = log.detail.values.get(key)
        if not isinstance(asked, int | float) or (isinstance(rule.limit, int | float) and asked < rule.limit):
            return Reaction.REFUSES
        return _as_loadgen(rule, log)

    return react


def _offline_samples(rule: RuleRecord, log: JudgedLog) -> Reaction:
    if log.is_open and not log.checks.offline_samples_in_open:
        return _as_loadgen(rule, log)
    return _below_limit("effective_samples_per_query")(rule, log)


def _latency_limit(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """It compares LoadGen's limit with the official one, not the measured latency."""
    asked = log.detail.values.get("effective_target_latency_ns")
    if not isinstance(asked, int | float) or (isinstance(rule.limit, int | float) and asked > rule.limit):
        return Reaction.REFUSES
    return _as_loadgen(rule, log)


def _token_latency(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """It compares the measured percentile, strictly, and not the limit that LoadGen was given.

    The limit may be that of the log's scenario: Server's, for a result of Interactive.
    """
    if log.rules.name in log.checks.token_latencies_unchecked:
        return Reaction.ACCEPTS
    measured, limit = rule.measured, rule.limit
    if not log.checks.interactive_limits:
        limits = log.rules.latencies_in(log.scenario.loadgen)
        limit = (getattr(limits, f"{rule.rule}_ms") or 0) * NS_PER_MS
    is_late = not isinstance(measured, int | float) or not isinstance(limit, int | float) or measured >= limit
    return _refuse_if(is_late)


def _equal_issue(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """It reads the log, or the configuration, which is a finding of its own, or neither."""
    is_read = log.checks.equal_issue_from == "log" and (log.checks.equal_issue_in_open or not log.is_open)
    return _refuse_if(is_read)


def _accuracy_samples(rule: RuleRecord, log: JudgedLog) -> Reaction:
    return _refuse_if(log.checks.dataset_size)


def _accept(rule: RuleRecord, log: JudgedLog) -> Reaction:
    return Reaction.ACCEPTS


def _error_lines(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """It looks at the lines, if at any, not at LoadGen's count of them."""
    return _refuse_if(log.checks.loadgen_errors and bool(log.detail.errors))


def _missing_file(rule: RuleRecord, log: JudgedLog) -> Reaction:
    """A missing summary of the accuracy test is only logged."""
    only_summary = rule.measured == 1 and SUMMARY in rule.fix
    return Reaction.ACCEPTS if only_summary else Reaction.REFUSES


_REACTIONS: Mapping[str, _React] = {
    "loadgen_result": _as_loadgen,
    "loadgen_errors": _error_lines,
    "min_duration": _below_limit("effective_min_duration_ms"),
    "min_queries": _as_loadgen,
    "offline_samples": _offline_samples,
    "samples_per_query": _accept,
    "latency_limit": _latency_limit,
    "ttft": _token_latency,
    "tpot": _token_latency,
    "early_stopping": _early_stopping,
    "equal_issue": _equal_issue,
    "accuracy_files": _missing_file,
    "accuracy_samples": _accuracy_samples,
    "inferred": _accept,
}
"""Rules that are not listed it has as they are."""
