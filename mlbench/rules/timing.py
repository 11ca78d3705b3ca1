"""Rules about duration, number of queries, and latency."""

from __future__ import annotations

import math
from datetime import datetime

from mlbench.contracts.load_pattern import MOMENT
from mlbench.contracts.rules import Tokens
from mlbench.rules.early_stopping import queries_needed
from mlbench.rules.facts import RuleResult, RunFacts

NS_PER_MS = 1_000_000


def min_duration(facts: RunFacts) -> RuleResult:
    """LoadGen found the run long enough, with a limit at least as large as ours.

    By LoadGen's clock: to the last query in the streams, to the last scheduled arrival in Server, to the last sample
    done in Offline.
    """
    limit = facts.limits.min_duration_ms
    asked = facts.detail.get("effective_min_duration_ms", 0)
    passed = asked >= limit and facts.detail.get("result_min_duration_met") is True
    fix = f"Raise load.min_duration_ms from {asked} to {limit}." if asked < limit else _longer(facts)
    return RuleResult(
        rule="min_duration",
        measured=asked if asked < limit else _duration_ms(facts),
        limit=limit,
        unit="ms",
        passed=passed,
        fix=fix,
        source=f"{facts.rulebook}, Scenarios; LoadGen results.cc; submission checker",
    )


def _duration_ms(facts: RunFacts) -> int | None:
    """Return how long the run lasted by LoadGen's clock, from the figures in its log; None where they are missing."""
    detail = facts.detail
    queries = detail.get("result_query_count", 0)
    if facts.scenario.sends_all_at_once:
        lasted_ns = detail.get("result_max_latency_ns", 0)
    elif facts.scenario.sends_rate:
        rate_per_s = detail.get("result_scheduled_samples_per_sec", 0)
        lasted_ns = (queries - 1) / rate_per_s * 1e9 if rate_per_s else 0
    else:
        lasted_ns = _stream_ns(facts)
    return round(lasted_ns / NS_PER_MS) or None


def _stream_ns(facts: RunFacts) -> float:
    """Return how long a stream lasted, with the time between its queries, which latencies do not hold.

    LoadGen logs the rate of one stream's queries, and of the other when it began and ended, for meters of power: by the
    machine's clock, which may be set meanwhile. The queries themselves took no less.
    """
    detail = facts.detail
    queries = detail.get("result_query_count", 0)
    least_ns = float(queries * _mean_query_latency_ns(facts))
    if rate_per_s := detail.get("result_qps_with_loadgen_overhead", 0):
        return float(queries / rate_per_s * 1e9)
    try:
        begun, ended = (datetime.strptime(str(detail.get(key)), MOMENT) for key in ("power_begin", "power_end"))
    except ValueError:  # a log without them
        return least_ns
    return max((ended - begun).total_seconds() * 1e9, least_ns)


def client_in_time(facts: RunFacts) -> RuleResult | None:
    """An engine in front of a server kept up with it, by its own measure: else times are the client's."""
    if facts.late_clients is None:
        return None
    return RuleResult(
        rule="client_in_time",
        measured=facts.late_clients,
        limit=0,
        unit="late clients",
        passed=facts.late_clients == 0,
        fix="Send less, or leave the client more of the machine: it was late, so times are not the server's.",
        source="mlbench: the measured times are the server's",
    )


def _mean_query_latency_ns(facts: RunFacts) -> int:
    return int(facts.detail.get(facts.scenario.pattern.query_time_key, 0))


def _target_qps(facts: RunFacts) -> float:
    return float(facts.detail.get("effective_target_qps", 0))


def _longer(facts: RunFacts) -> str:
    """Return how to make a run longer: LoadGen prepares the queries beforehand, from an estimate that was too low."""
    if facts.scenario.sends_all_at_once:
        rate = math.ceil(facts.detail.get("result_samples_per_second", 0))
        hint = _target_qps(facts)
        return f"Raise load.target_qps from {hint:g} to at least {rate}: LoadGen sent too few samples to fill the time."
    if facts.scenario.sends_rate:
        return "Raise load.min_duration_ms: the scheduled arrivals ended too early."
    hint = _mean_query_latency_ns(facts)
    return f"Lower load.expected_latency_ns to {hint}: LoadGen prepared too few queries to fill the time."


def min_queries(facts: RunFacts) -> RuleResult | None:
    """Enough queries, with a limit at least as large as ours.

    Offline sends one query and is judged by `offline_samples`.
    """
    if facts.scenario.sends_all_at_once:
        return None
    limit = facts.limits.min_query_count
    sent, asked = facts.detail.get("result_query_count", 0), facts.detail.get("effective_min_query_count", 0)
    fix = f"Raise load.min_query_count from {asked} to {limit}." if asked < limit else _describe_stop(sent, asked)
    passed = min(sent, asked) >= limit and facts.detail.get("result_min_queries_met") is True
    return RuleResult(
        rule="min_queries",
        measured=sent if asked >= limit else min(sent, asked),
        limit=limit,
        unit="queries",
        passed=passed,
        fix=fix,
        source=f"{facts.rulebook}, Scenarios; mlperf.conf",
    )


def _describe_stop(sent: int, asked: int) -> str:
    return f"LoadGen stopped after {sent} of {asked} queries; its errors say why."


def offline_samples(facts: RunFacts) -> RuleResult | None:
    """Enough samples in the one query of Offline, all of them done."""
    limit = facts.limits.offline_min_samples
    if limit is None:
        return None
    asked = facts.detail.get("effective_samples_per_query", 0)
    passed = asked >= limit and facts.detail.get("result_min_queries_met") is True
    return RuleResult(
        rule="offline_samples",
        measured=asked,
        limit=limit,
        unit="samples",
        passed=passed,
        fix=f"Raise load.min_query_count from {asked} to {limit} samples.",
        source=f"submission checker {facts.rules.round}, OFFLINE_MIN_SPQ; mlperf.conf",
    )


def latency_limit(facts: RunFacts) -> RuleResult | None:
    """In Server the percentile latency is within the limit, and LoadGen was given no larger limit."""
    keys = (f"result_{_percent(facts)}_percentile_latency_ns", "effective_target_latency_ns")
    return _latency(facts, "latency_limit", facts.limits.server_latency_ms, keys)


def ttft(facts: RunFacts) -> RuleResult | None:
    """In Server the percentile time to first token is strictly below its limit."""
    keys = (f"result_first_token_{_percent(facts)}_percentile_latency_ns", "requested_server_ttft_latency")
    return _latency(facts, "ttft", facts.limits.ttft_ms, keys, is_strict=True)


def tpot(facts: RunFacts) -> RuleResult | None:
    """In Server the percentile time per output token is strictly below its limit."""
    keys = (f"result_time_per_output_token_{_percent(facts)}_percentile_ns", "requested_server_tpot_latency")
    return _latency(facts, "tpot", facts.limits.tpot_ms, keys, is_strict=True)


def _percentile(facts: RunFacts) -> float:
    return facts.scenario.percentile or 0.99


def _percent(facts: RunFacts) -> str:
    """Return the percentile as LoadGen's keys spell it: 99.00."""
    return f"{100 * _percentile(facts):.2f}"


def _latency(
    facts: RunFacts, rule: str, limit_ms: float | None, keys: tuple[str, str], *, is_strict: bool = False
) -> RuleResult | None:
    """Apply a limit to the measured latency and to LoadGen's own limit, which are in its log under these keys."""
    if limit_ms is None:
        return None
    limit, (measured, asked) = round(limit_ms * NS_PER_MS), map(facts.detail.get, keys)
    is_limit_set = asked is not None and 0 < asked <= limit
    is_in_time = measured is not None and (measured < limit if is_strict else measured <= limit)
    passed = is_limit_set and is_in_time and facts.detail.get("result_perf_constraints_met") is True
    if is_limit_set:
        fix = f"Lower load.target_qps below {_target_qps(facts):g}, or answer within {limit_ms:g} ms."
    else:
        fix = f"Give LoadGen a limit of at most {limit_ms:g} ms; it was given {(asked or 0) / NS_PER_MS:g} ms."
    return RuleResult(
        rule=rule,
        measured=measured,
        limit=limit,
        unit="ns",
        passed=passed,
        fix=fix,
        source=f"{facts.rulebook}, Benchmarks; mlperf.conf; submission checker",
    )


def early_stopping(facts: RunFacts) -> RuleResult | None:
    """Enough queries for a reliable percentile: LoadGen's own test and, where misses are logged, ours.

    The official checker only logs that LoadGen's test failed; here it decides.
    """
    if not facts.scenario.early_stopping:
        return None
    queries, misses = facts.detail.get("result_query_count", 0), _misses(facts)
    needed = queries_needed(misses, _percentile(facts))
    passed = queries >= needed and facts.detail.get("early_stopping_met") is True
    return RuleResult(
        rule="early_stopping",
        measured=queries,
        limit=needed,
        unit="queries",
        passed=passed,
        fix=_believable(facts, queries, misses, needed),
        source=f"{facts.rulebook}, appendix Early Stopping",
    )


def _misses(facts: RunFacts) -> int:
    """Return how many late queries must be allowed for.

    The streams discard one. LoadGen's count is meaningless when tokens are measured: its limit is 0 there.
    """
    if not facts.scenario.sends_rate:
        return 1
    return 0 if facts.limits.tokens is Tokens.MEASURED else int(facts.detail.get("result_overlatency_query_count", 0))


def _believable(facts: RunFacts, queries: int, misses: int, needed: int) -> str:
    if not facts.scenario.sends_rate:
        return f"Raise load.min_query_count to {needed}."
    qps = _target_qps(facts)
    if queries >= needed:  # LoadGen counts late tokens, and does not log how many
        return f"Lower load.target_qps below {qps:g}, or raise load.min_query_count above {queries}."
    if misses >= queries * (1 - _percentile(facts)):
        return f"Lower load.target_qps below {qps:g}: {misses} of {queries} queries were late."
    late = f"{misses} of {queries} queries were late"
    return f"Raise load.min_query_count to {needed}, or lower load.target_qps below {qps:g}: {late}."
