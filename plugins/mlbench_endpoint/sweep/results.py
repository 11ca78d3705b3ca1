"""A sweep: several loads on a server, as a suite of runs, and the result of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlbench.toolkit import queries_needed
from mlbench_endpoint.api import Api
from mlbench_endpoint.client.lag import explain_free_places, explain_lateness
from mlbench_endpoint.client.remarks import counted_by
from mlbench_endpoint.loads.load import Load
from mlbench_endpoint.loads.scenarios import RATE
from mlbench_endpoint.sweep.load_notes import notes_of

_IN_TIME = "client_in_time"
_RANKS = {"replies_sound": 0, _IN_TIME: 1, "loadgen_result": 3}
"""Rules that are the cause of others come before these, and LoadGen's result, which follows from them, after."""
_OPTIONS = {"load.min_query_count": "--requests", "load.target_qps": "--rate"}
"""The command's names of settings."""

_NAMED_PERCENTILES = {0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99"}


def short(value: float) -> str:
    """Return a number with three digits, or all before the point."""
    return f"{value:,.3g}" if value < 999.5 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Percentiles of a time in ns, by name, without those for which there are too few requests."""

    ns: Mapping[str, int]
    source: str
    """Source of the times: ``LoadGen``, or ``from sending`` (the process that sends requests)."""
    intervals: Mapping[str, Sequence[int | None]]
    """Ends of the intervals of the same percentiles at 95 % confidence; None: no bound. For LoadGen's percentiles
    they have the widths of those from sending."""

    def text(self, name: str) -> str:
        """Return a percentile in ms, or a dash."""
        return short(self.ns[name] / 1e6) if name in self.ns else "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a run."""

    run_id: str
    load: Load
    repeat: int
    requests: int
    """Requests of the steady part, whose times are shown."""
    requests_per_s: float
    """Completed requests per second."""
    tokens_per_s: float
    """Tokens of answers per second, by the server's count."""
    prompt_tokens_per_s: float
    prompt_tokens: float
    """The mean length of a prompt, by the server's count."""
    answer_tokens: float
    ttft: Percentiles
    tpot: Percentiles
    itl: Percentiles
    """Time between two chunks of an answer."""
    e2e: Percentiles
    """Time of a whole answer."""
    e2e_per_token: Percentiles
    """The same divided by the answer's tokens."""
    window: Mapping[str, Any]
    """The steady part, a `LoadWindow`; empty without answers."""
    goodput: Mapping[str, Any] | None
    """A `Goodput`; None: no limits were given."""
    same_answers: Mapping[str, Any] | None
    """A `SameAnswers`; None: answers were not compared."""
    client: Mapping[str, float]
    """Lags of the client in ns, and the share of a processor that it took; see `ClientLag.facts`."""
    counted_by: str
    """Who counted tokens: ``server``, ``chunks`` or ``tokenizer``."""
    server_metrics: Mapping[str, Any] | None
    """A `ServerMetrics`; None: the server shows none."""
    problem: str
    """Reason why the run is not valid; empty if it is."""
    notes: Sequence[str] = ()
    """Sentences about the numbers and the load: who counted, oddities of the server, whether caches help, turns of
    sessions, how a schedule was kept."""


def results_of(records: Sequence[Mapping[str, Any]]) -> list[LoadResult]:
    """Return the results of runs, given their records, those at a rate first and the least load first."""
    return sorted(
        map(_result_of, records),
        key=lambda result: (*result.load.rank, result.repeat),
    )


def _result_of(record: Mapping[str, Any]) -> LoadResult:
    load = Load.of_record(record["scenario"], record["settings"])
    is_rate = record["scenario"] == RATE.name and not record["engine"].get("sessions")  # LoadGen times whole sessions
    has_tokens = record["workload"] != Api.EMBEDDINGS.workload
    rows = {(row["of"], row["unit"]): row for row in record["engine"].get("from_sending", ())}
    if _lateness_of(record):  # then its times are not the server's
        rows = {name: row for name, row in rows.items() if name[1] != "ns"}
    requests = rows["answer", "tokens"]["requests"] if rows else 0
    latency_ns = (record["result"] or {}).get("latency_ns", {}) if is_rate and has_tokens else None
    tokens_per_s = (record["result"] or {}).get("value") or 0.0
    prompt_tokens, answer_tokens = (_mean(rows, (of, "tokens")) for of in ("prompt", "answer"))
    requests_per_s = tokens_per_s / answer_tokens if answer_tokens else (0.0 if has_tokens else tokens_per_s)
    lasted_ns = (record["result"] or {}).get("latency_ns", {}).get("max_latency")
    if lasted_ns and has_tokens and record["engine"].get("window", {}).get("left_out_at_start"):
        requests_per_s = 1e9 * record["engine"]["answered"] / lasted_ns  # that mean is not of all answers

    def from_sending(of: str) -> Percentiles:
        return _percentiles(None, "", rows.get((of, "ns")))

    return LoadResult(
        run_id=record["run_id"],
        load=load,
        repeat=record["repeat"],
        requests=requests,
        requests_per_s=requests_per_s,
        tokens_per_s=tokens_per_s if has_tokens else 0.0,
        prompt_tokens_per_s=requests_per_s * prompt_tokens,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        ttft=_percentiles(
            latency_ns,
            "first_token_{:.2f}_percentile_latency",
            rows.get(("first token", "ns")) if has_tokens else None,
        ),
        tpot=_percentiles(latency_ns, "time_per_output_token_{:.2f}_percentile", rows.get(("per output token", "ns"))),
        itl=from_sending("inter-token"),
        e2e=from_sending("answer"),
        e2e_per_token=from_sending("answer per token"),
        window=record["engine"].get("window", {}),
        goodput=record["engine"].get("goodput"),
        same_answers=record["engine"].get("same_answers"),
        client=record["engine"].get("client", {}),
        counted_by=counted_by(record["engine"]),
        server_metrics=record["engine"].get("server_metrics"),
        problem=next(_problems_of(record), ""),
        notes=notes_of(record),
    )


def _mean(rows: Mapping[tuple[str, str], Any], name: tuple[str, str]) -> float:
    return float(rows[name]["mean"]) if name in rows else 0.0


def _percentiles(latency_ns: Mapping[str, int] | None, key: str, row: Mapping[str, Any] | None) -> Percentiles:
    """Return LoadGen's percentiles where it timed requests one by one, else those from sending."""
    requests = row["requests"] if row else 0
    shown = {name: share for share, name in _NAMED_PERCENTILES.items() if is_believable(share, requests)}
    intervals = {name: ends for name, ends in (row or {}).get("intervals", {}).items() if name in shown}
    if latency_ns is not None:
        found = {name: latency_ns.get(key.format(100 * share)) for name, share in shown.items()}
        logged = {name: ns for name, ns in found.items() if ns is not None}
        intervals = {name: _moved(ends, logged[name] - (row or {})[name]) for name, ends in intervals.items()}
        return Percentiles(ns=logged, source="LoadGen", intervals=intervals)
    ns = {name: row[name] for name in shown if name in row} if row else {}
    return Percentiles(ns=ns, source="from sending", intervals=intervals)


def _moved(ends: Sequence[int | None], by_ns: int) -> Sequence[int | None]:
    return [None if end is None else end + by_ns for end in ends]


def is_believable(share: float, requests: int) -> bool:
    """Return whether a percentile of so many requests is surely no less than the system's.

    Source: MLPerf Inference v4.1 rules, appendix Early Stopping, with no query over the limit.
    """
    return requests >= queries_needed(0, share)


def _problems_of(record: Mapping[str, Any]) -> Iterator[str]:
    if failure := record["failure"]:
        yield f"{failure['kind']}: {failure['message']}"
        return
    failed = [rule for rule in record["verdict"]["rules"] if rule["required"] and not rule["passed"]]
    for rule in sorted(failed, key=lambda rule: _RANKS.get(rule["rule"], 2)):
        fix = _lateness_of(record) if rule["rule"] == _IN_TIME else rule["fix"]
        for setting, option in _OPTIONS.items():
            fix = fix.replace(setting, option)
        yield f"INVALID by {rule['rule']}: {fix}"


def _lateness_of(record: Mapping[str, Any]) -> str:
    """Return why times are the client's, not the server's, with numbers; empty if they are the server's."""
    if not record["engine"].get("late_clients"):
        return ""
    rows = record["engine"].get("from_sending", ())
    ttft_ns = next((row["p50"] for row in rows if row["of"] == "first token"), 0)
    late = explain_lateness(record["engine"].get("client", {}), ttft_ns)
    return late or explain_free_places(record["engine"].get("window", {}))
