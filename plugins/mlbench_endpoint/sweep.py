"""A sweep: several loads on a server, as a suite of runs, and the result of each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlbench_endpoint.scenarios import CONCURRENCY, RATE

_CONFIDENCE = 0.99
"""Confidence of a shown percentile, as for early stopping in MLPerf's rules."""

_CONNECTIONS = "backend.connections"
_TARGET_QPS = "load.target_qps"
_NAMED_PERCENTILES = {0.5: "p50", 0.9: "p90", 0.99: "p99"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load of a sweep."""

    rate_per_s: float | None = None
    in_flight: int | None = None
    """Number of concurrent requests; exactly one of the two is given."""

    @property
    def scenario(self) -> str:
        """The scenario of this load."""
        return RATE.name if self.rate_per_s else CONCURRENCY.name

    @property
    def label(self) -> str:
        """Its name in a table."""
        return f"{self.rate_per_s:g}/s" if self.rate_per_s else f"{self.in_flight} at once"

    def settings(self, *, most_connections: int) -> Mapping[str, float]:
        """Return the settings of its run."""
        if self.rate_per_s:
            return {_TARGET_QPS: self.rate_per_s, _CONNECTIONS: most_connections}
        return {_CONNECTIONS: self.in_flight or 1}


def suite_text(name: str, runs: Sequence[tuple[Load, Mapping[str, object]]], *, tier: str, repeats: int) -> str:
    """Return a suite file with a run for each load.

    Args:
        name: of the suite, the tag of its runs.
        runs: loads, each with all settings of its run.
        tier: of all runs.
        repeats: of each run.
    """
    lines = [f"name = {json.dumps(name)}", f"repeats = {repeats}"]
    for load, settings in runs:
        lines += ["", "[[runs]]", 'workload = "prompts"', 'backend = "endpoint"']
        lines += [f"scenario = {json.dumps(load.scenario)}", f"tier = {json.dumps(tier)}", 'profile = "full"']
        lines += ["accuracy = false", "", "[runs.settings]"]
        lines += [f"{json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Percentiles of a time in ns, by name, without those for which there are too few requests."""

    ns: Mapping[str, int]
    source: str
    """Source of the times: ``LoadGen``, or ``from sending`` (the process that sends requests)."""

    def text(self, name: str) -> str:
        """Return a percentile in ms, or a dash."""
        return f"{self.ns[name] / 1e6:,.3g}" if name in self.ns else "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a run."""

    run_id: str
    load: Load
    repeat: int
    requests: int
    requests_per_s: float
    """Completed requests per second."""
    tokens_per_s: float
    """Tokens of answers per second, by the server's count."""
    prompt_tokens: float
    """The mean length of a prompt, by the server's count."""
    answer_tokens: float
    ttft: Percentiles
    tpot: Percentiles
    problem: str
    """Reason why the run is not valid; empty if it is."""


def results_of(records: Sequence[Mapping[str, Any]]) -> list[LoadResult]:
    """Return the results of runs, given their records, those at a rate first and the least load first."""
    return sorted(
        map(_result_of, records),
        key=lambda result: (result.load.in_flight or 0, result.load.rate_per_s or 0, result.repeat),
    )


def _result_of(record: Mapping[str, Any]) -> LoadResult:
    settings, is_rate = record["settings"], record["scenario"] == RATE.name
    load = (
        Load(rate_per_s=settings[_TARGET_QPS]["value"]) if is_rate else Load(in_flight=settings[_CONNECTIONS]["value"])
    )
    rows = {(row["of"], row["unit"]): row for row in record["engine"].get("from_sending", ())}
    requests = rows["answer", "tokens"]["requests"] if rows else 0
    latency_ns = (record["result"] or {}).get("latency_ns", {}) if is_rate else None
    tokens_per_s = (record["result"] or {}).get("value") or 0.0
    answer_tokens = _mean(rows, ("answer", "tokens"))
    return LoadResult(
        run_id=record["run_id"],
        load=load,
        repeat=record["repeat"],
        requests=requests,
        requests_per_s=tokens_per_s / answer_tokens if answer_tokens else 0.0,
        tokens_per_s=tokens_per_s,
        prompt_tokens=_mean(rows, ("prompt", "tokens")),
        answer_tokens=answer_tokens,
        ttft=_percentiles(
            latency_ns, "first_token_{:.2f}_percentile_latency", rows.get(("first token", "ns")), requests
        ),
        tpot=_percentiles(
            latency_ns, "time_per_output_token_{:.2f}_percentile", rows.get(("per output token", "ns")), requests
        ),
        problem=_problem_of(record),
    )


def _mean(rows: Mapping[tuple[str, str], Any], name: tuple[str, str]) -> float:
    return float(rows[name]["mean"]) if name in rows else 0.0


def _percentiles(
    latency_ns: Mapping[str, int] | None, key: str, row: Mapping[str, Any] | None, requests: int
) -> Percentiles:
    """Return LoadGen's percentiles where it timed requests one by one, else those from sending."""
    shown = {name: share for share, name in _NAMED_PERCENTILES.items() if is_believable(share, requests)}
    if latency_ns is not None:
        found = {name: latency_ns.get(key.format(100 * share)) for name, share in shown.items()}
        return Percentiles(ns={name: ns for name, ns in found.items() if ns is not None}, source="LoadGen")
    return Percentiles(ns={name: row[name] for name in shown} if row else {}, source="from sending")


def is_believable(share: float, requests: int) -> bool:
    """Return whether a percentile of so many requests is surely no less than the system's.

    Source: MLPerf Inference v4.1 rules, appendix Early Stopping, with no query over the limit.
    """
    return requests >= math.log(1 - _CONFIDENCE) / math.log(share)


def _problem_of(record: Mapping[str, Any]) -> str:
    return next(_problems_of(record), "")


def _problems_of(record: Mapping[str, Any]) -> Iterator[str]:
    if failure := record["failure"]:
        yield f"{failure['kind']}: {failure['message']}"
        return
    failed = [rule for rule in record["verdict"]["rules"] if rule["required"] and not rule["passed"]]
    for rule in sorted(failed, key=lambda rule: rule["rule"] != "replies_sound"):  # the cause of others
        yield f"INVALID by {rule['rule']}: {rule['fix']}"
