"""A server's own metrics: their names on the servers in use, samples of them, and what they say about a run."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

METRICS_NAME = "endpoint-server{}.csv"
"""File in the run folder with a line for each sample of the measured part."""

GAUGES: Mapping[str, Sequence[str]] = {
    "running": (
        "vllm:num_requests_running",
        "sglang:num_running_reqs",
        "trtllm_num_requests_running",
        "trtllm_num_active_requests",
        "nv_trt_llm_request_metrics{request_type=scheduled}",
    ),
    "waiting": (
        "vllm:num_requests_waiting",
        "sglang:num_queue_reqs",
        "trtllm_num_requests_waiting",
        "trtllm_server_queue_length",
        "nv_trt_llm_request_metrics{request_type=waiting}",
    ),
    "cache_usage": (
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "sglang:token_usage",
        "trtllm_kv_cache_utilization",
        "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}",
    ),
}
"""Names of a quantity that goes up and down, of which the first one that a server has counts. Sources: vLLM,
v1/metrics/loggers.py; SGLang, srt/metrics/collector.py; TensorRT-LLM, metrics/collector.py; Triton's backend for it,
custom_metrics_reporter.cc."""

COUNTERS: Mapping[str, Sequence[str]] = {
    "prompt_tokens": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "trtllm_prompt_tokens_total"),
    "answer_tokens": ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    "looked_up_tokens": (
        "vllm:prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries_total",
        "sglang:prompt_tokens_total",
        "trtllm_prompt_tokens_total",
    ),
    "cached_tokens": (
        "vllm:prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits_total",
        "sglang:cached_tokens_total",
        "trtllm_prompt_cached_tokens_total",
    ),
    "drafted_tokens": ("vllm:spec_decode_num_draft_tokens_total", "trtllm_spec_decode_drafted_tokens_total"),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total", "trtllm_spec_decode_accepted_tokens_total"),
}
"""Likewise of counters, in tokens since the server's start."""

_SHARES = ("cache_usage",)
_NAMES = {**GAUGES, **COUNTERS}
_BARE = {name.partition("{")[0] for names in _NAMES.values() for name in names}
_TOLERANCE = 0.01
_MOST = 1e18
"""Larger numbers, negative ones and NaN are left out: no server counts them."""


def read_metrics(text: str) -> Mapping[str, float]:
    """Return the known quantities in Prometheus text: sums over labels, of shares the highest.

    Raises:
        ValueError: it is not Prometheus text.
    """
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(text))
    except Exception as error:  # the parser raises whatever happens, for damaged text also an IndexError
        raise ValueError(str(error)) from error
    found: dict[str, list[float]] = {}
    for family in families:
        for sample in family.samples:
            if sample.name in _BARE and 0 <= sample.value <= _MOST:
                found.setdefault(sample.name, []).append(sample.value)
                for label, value in sample.labels.items():
                    found.setdefault(f"{sample.name}{{{label}={value}}}", []).append(sample.value)
    known: dict[str, float] = {}
    for quantity, names in _NAMES.items():
        if values := next((found[name] for name in names if name in found), None):
            known[quantity] = max(values) if quantity in _SHARES else math.fsum(values)
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSample:
    """The metrics at a moment; of several servers sums, of shares the highest."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    values: Mapping[str, float]

    @classmethod
    def of_servers(cls, at_ns: int, found: Sequence[Mapping[str, float]]) -> Self:
        """Join the metrics of all servers; a quantity that one lacks is left out."""
        names = [name for name in _NAMES if all(name in each for each in found)]
        join = {name: max if name in _SHARES else math.fsum for name in names}
        return cls(at_ns=at_ns, values={name: join[name](each[name] for each in found) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeSummary:
    """A quantity over the samples."""

    median: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """The server's side of a run; a record holds it as a JSON object."""

    samples: int
    seconds: float
    """From the first sample to the last."""
    gauges: Mapping[str, GaugeSummary]
    counters: Mapping[str, int]
    """Growth during the run."""
    prefix_hit_rate: float | None
    """Share of the prompts' tokens that came from the prefix cache."""
    accepted_share: float | None
    """Share of the drafted tokens that were accepted."""
    remarks: Sequence[str] = field(default_factory=tuple)
    """Where its counts and those of the answers differ."""


def summarise_metrics(samples: Sequence[MetricsSample]) -> ServerMetrics | None:
    """Return a summary; None for fewer than two samples."""
    if len(samples) < 2:  # growth needs two
        return None
    first, last = samples[0], samples[-1]
    amid = samples[1:-1] or samples  # the first and the last are from before and after the load
    columns = {name: [each.values[name] for each in amid if name in each.values] for name in GAUGES}
    growth = {
        name: round(last.values[name] - first.values[name])
        for name in COUNTERS
        if name in first.values and name in last.values
    }
    counters = {name: count for name, count in growth.items() if count >= 0}  # else it was started anew
    return ServerMetrics(
        samples=len(samples),
        seconds=round((last.at_ns - first.at_ns) / 1e9, 3),
        gauges={
            name: GaugeSummary(median=statistics.median(values), most=max(values))
            for name, values in columns.items()
            if values
        },
        counters=counters,
        prefix_hit_rate=_share(counters, "cached_tokens", "looked_up_tokens"),
        accepted_share=_share(counters, "accepted_tokens", "drafted_tokens"),
    )


def compare_counts(
    found: ServerMetrics, *, prompt_tokens: int, answer_tokens: int, end_tokens: int = 0
) -> Iterator[str]:
    """Yield remarks where the metrics grew by other numbers of tokens than the answers of the run have.

    Args:
        found: the metrics.
        prompt_tokens: of all requests of the run; 0: the server does not say.
        answer_tokens: likewise.
        end_tokens: end tokens that only one side may count.
    """
    for name, ours, of, slack in (
        ("prompt_tokens", prompt_tokens, "prompts", 0),
        ("answer_tokens", answer_tokens, "answers", end_tokens),
    ):
        theirs = found.counters.get(name)
        if theirs is not None and ours and abs(theirs - ours) > max(slack, _TOLERANCE * max(ours, theirs)):
            yield (
                f"the server's metrics grew by {theirs:,} tokens of {of}, but its answers to this run count {ours:,}: "
                "it has other clients, or counts in two ways"
            )


def write_metrics(samples: Sequence[MetricsSample], file: Path) -> None:
    """Write a line for each sample, after one with the names; raises OSError."""
    names = [name for name in _NAMES if any(name in each.values for each in samples)]
    with file.open("w", newline="") as text:
        lines = csv.writer(text)
        lines.writerow(["at_ns", *names])
        lines.writerows([each.at_ns, *(each.values.get(name, "") for name in names)] for each in samples)


def metrics_text(found: Mapping[str, Any]) -> str:
    """Return a `ServerMetrics`, as a record has it, on one line."""
    told = []
    for name in ("running", "waiting"):
        if gauge := found["gauges"].get(name):
            told.append(f"{name} {gauge['median']:g} (most {gauge['most']:g})")
    if gauge := found["gauges"].get("cache_usage"):
        told.append(f"cache {gauge['most']:.0%}")
    for name, words in (("prefix_hit_rate", "prefix hits"), ("accepted_share", "drafts accepted")):
        if found[name] is not None:
            told.append(f"{words} {found[name]:.1%}")
    return ", ".join(told)


def samples_to_json(samples: Sequence[MetricsSample]) -> list[object]:
    """Return samples as JSON values."""
    return list(map(asdict, samples))


def _share(counters: Mapping[str, int], part: str, whole: str) -> float | None:
    if part not in counters or not counters.get(whole):
        return None
    return round(counters[part] / counters[whole], 4)
