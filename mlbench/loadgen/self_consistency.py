"""Whether the logs of a test agree with each other and with themselves.

LoadGen works its figures out of one another, and prints most of them twice: who edits one figure must edit all that
follow from it. Nothing here needs a record.

Source: LoadGen's results.cc, loadgen.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from mlbench.contracts.load_pattern import LOAD_PATTERNS, MOMENT, Arrivals
from mlbench.errors import one_line
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.system.documents import read_text

SUMMARY = "mlperf_log_summary.txt"

_MODES = {Mode.PERFORMANCE: "PerformanceOnly", Mode.ACCURACY: "AccuracyOnly"}

_DIGITS = 2e-5
"""Relative: LoadGen prints six digits of a rate."""
_BETWEEN_S, _BETWEEN_SHARE = 1e-4, 0.3
"""Time between the queries of a stream, which their latencies do not hold: of each, and a share of the whole."""
_REST_S, _REST_SHARE = 0.5, 0.1
"""Time of a test in which nothing was answered any more, or yet."""
_CLOCK_S, _CLOCK_SHARE = 0.25, 0.01
"""Begin and end of a test are of the machine's clock, in milliseconds, and it may be adjusted meanwhile."""

_LINE = re.compile(r"\s*(.+?)\s*: (\S+)")
_LABELS = {
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
    "Samples per second": "result_samples_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Tokens per second (inferred)": "result_inferred_tokens_per_second",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
}
_LATENCY = re.compile(r"(Min|Max|Mean|\d\d\.\d+ percentile) latency \(ns\)")


def contradictions(folder: Path) -> Iterator[str]:
    """Yield a line for each figure in the logs of a run's tests that contradicts another.

    Args:
        folder: the run folder.

    Raises:
        DataError: a log is missing, cut short or corrupt.
    """
    for mode, logged in _MODES.items():
        if not (folder / mode).is_dir():
            continue
        detail = read_detail(folder / mode / DETAIL)
        found = detail.values.get("effective_test_mode")
        if found != logged:
            yield f"the log of the {mode} test is of {_show(found)}, not {logged}"
        elif mode is Mode.PERFORMANCE:
            yield from (f"the log of the {mode} test: {line}" for line in _in_figures(detail))
            yield from (f"the logs of the {mode} test: {line}" for line in _in_summary(folder / mode / SUMMARY, detail))


def _in_figures(detail: DetailLog) -> Iterator[str]:
    """Yield contradictions between a rate, a number of queries and a duration."""
    pattern = LOAD_PATTERNS.get(str(detail.values.get("effective_scenario")))
    duration_s = lasted_s(detail)
    queries, size = (detail.number(key) for key in ("result_query_count", "generated_samples_per_query"))
    if pattern is None or duration_s is None or queries is None or size is None:
        yield "its scenario, its begin and end, or its number of queries is missing"
        return
    longest_s = duration_s * (1 + _CLOCK_SHARE) + _CLOCK_S
    samples = queries * size
    if pattern.arrivals is Arrivals.ONE_BY_ONE:
        mean_ns = detail.number(pattern.query_time_key) or 0.0
        claimed_s, said = queries * mean_ns / 1e9, f"{queries:g} queries of {mean_ns:g} ns on average"
        yield from _stream_rates(detail, queries, longest_s)
    else:
        rate_per_s, counted = (
            detail.number(pattern.rate_key) or 0.0,
            samples - (pattern.arrivals is Arrivals.AT_A_RATE),
        )
        claimed_s, said = counted / rate_per_s if rate_per_s else 0.0, f"{counted:g} samples at {rate_per_s:g} a second"
    # between two queries of a stream LoadGen and the engine may wait for a processor
    between_s = _BETWEEN_SHARE * duration_s + _BETWEEN_S * queries if pattern.arrivals is Arrivals.ONE_BY_ONE else 0.0
    if not duration_s - between_s - _REST_SHARE * duration_s - _REST_S <= claimed_s <= longest_s:
        yield f"{said} take {claimed_s:.6g} s, and it lasted {duration_s:.3f} s"
    yield from _last_answer(detail, pattern.arrivals, samples)
    yield from _order(detail, "_latency_ns")
    yield from _order(detail, "_query_latency_ns")


def _stream_rates(detail: DetailLog, queries: float, longest_s: float) -> Iterator[str]:
    """Yield contradictions in LoadGen's logged rates of SingleStream."""
    with_own, without = (detail.number(f"result_qps_{name}_loadgen_overhead") or 0.0 for name in ("with", "without"))
    mean_ns = detail.number("result_mean_latency_ns") or 0.0
    if with_own and queries / with_own > longest_s:
        yield f"{queries:g} queries at {with_own:g} a second take {queries / with_own:.6g} s"
    if without and mean_ns and abs(without * mean_ns / 1e9 - 1) > _DIGITS + 1 / mean_ns:
        yield f"{without:g} queries a second are not one in {mean_ns:g} ns"


def _last_answer(detail: DetailLog, arrivals: Arrivals, samples: float) -> Iterator[str]:
    """Yield a rate that does not agree with the last answer, or with the schedule."""
    if arrivals is Arrivals.ALL_AT_ONCE:
        rate_per_s, last_ns = (
            detail.number(f"result_{key}") or 0.0 for key in ("samples_per_second", "max_latency_ns")
        )
        if abs(rate_per_s * last_ns / 1e9 - samples) > _DIGITS * samples:
            yield f"{samples:g} samples in {last_ns / 1e9:.6g} s are not {rate_per_s:g} a second"
    if arrivals is Arrivals.AT_A_RATE:
        done, sent = (detail.number(f"result_{key}_samples_per_sec") or 0.0 for key in ("completed", "scheduled"))
        if sent and done > sent * (1 + _DIGITS):
            yield f"{done:g} samples a second were completed, and {sent:g} were sent"


def _order(detail: DetailLog, ending: str) -> Iterator[str]:
    """Yield percentiles that are not in order, between the least and the greatest; none where there are none."""
    kind = "_percentile_per" if ending.startswith("_query") else "_percentile"
    percentiles = sorted(key for key in detail.values if re.fullmatch(rf"result_\d\d\.\d\d{kind}{ending}", key))
    least, mean, most = (f"result_{name}{ending}" for name in ("min", "mean", "max"))
    for row in ((least, *percentiles, most), (least, mean, most)):
        found = [number for key in row if (number := detail.number(key)) is not None]
        if found != sorted(found):
            yield f"{' <= '.join(row)} is not so"


def _in_summary(path: Path, detail: DetailLog) -> Iterator[str]:
    """Yield figures that the summary has otherwise than the detail log."""
    of_queries, found = False, 0
    for line in read_text(path, what="LoadGen log", replaces_errors=True).splitlines():
        of_queries |= line.startswith("Per-query latency")
        if not (match := _LINE.fullmatch(line)):
            continue
        label, said = match.groups()
        key = _LABELS.get(label) or _latency_key(label, of_queries=of_queries)
        if key and key in detail.values:
            found += 1
            if not _is_same(said, detail.values[key]):
                said = one_line(said, longest=40)
                yield f'"{label}: {said}" in the summary, and {_show(detail.values[key])} in the detail log'
    if not found:
        yield f"{SUMMARY} has none of the results"


def _latency_key(label: str, *, of_queries: bool) -> str | None:
    if not (match := _LATENCY.fullmatch(label)):
        return None
    name = match[1].lower()
    if name.endswith("percentile"):
        return f"result_{name.replace(' ', '_')}{'_per_query' if of_queries else ''}_latency_ns"
    return f"result_{name}{'_query' if of_queries else ''}_latency_ns"


def _is_same(said: str, logged: Any) -> bool:
    """Return whether a number is another one, as far as it has digits, or a text the same."""
    try:
        decimals = said.partition(".")[2].partition("e")[0]
        printed = 10.0 ** -len(decimals) if decimals else 0.0
        return abs(float(said) - float(logged)) <= max(_DIGITS * abs(float(logged)), printed)
    except (TypeError, ValueError):
        return said == str(logged)


def lasted_s(detail: DetailLog) -> float | None:
    """Return how long a test lasted by its log; None where the log does not say."""
    try:
        begun, ended = (datetime.strptime(str(detail.values.get(key)), MOMENT) for key in ("power_begin", "power_end"))
    except ValueError:
        return None
    return (ended - begun).total_seconds()


def _show(value: Any) -> str:
    return one_line(value, longest=40)
