"""Counts of a mock server, and their form at /metrics: Prometheus text, by the names of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class MockCounts:
    """Counts since the start."""

    running: int = 0
    waiting: int = 0
    requests: int = 0
    """Answered to the end."""
    refused: int = 0
    prompt_tokens: int = 0
    """Tokens of prompts whose answer began."""
    answer_tokens: int = 0
    looked_up_tokens: int = 0
    """Tokens of prompts that were looked up in the prefix cache."""
    cached_tokens: int = 0
    """Those that it had."""


def metrics_text(counts: MockCounts, cache_usage: float, model: str, server: str) -> str:
    """Return the counts as Prometheus text.

    Args:
        counts: of the server.
        cache_usage: share of the prefix cache that is filled.
        model: name of the model.
        server: ``vllm`` or ``sglang``.
    """
    lines = []
    rows = _vllm_rows(counts, cache_usage) if server == "vllm" else _sglang_rows(counts, cache_usage)
    label = model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    for name, kind, about, value in rows:
        lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f'{name}{{model_name="{label}"}} {value}']
    return "\n".join(lines) + "\n"


_Row = tuple[str, str, str, float]


def _vllm_rows(counts: MockCounts, cache_usage: float) -> Iterator[_Row]:
    """Yield the metrics that vLLM 0.10 and later has under these names."""
    yield "vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", counts.running
    yield "vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", counts.waiting
    yield "vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", cache_usage
    queries, hits = counts.looked_up_tokens, counts.cached_tokens
    yield "vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in queried tokens.", queries
    yield "vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in cached tokens.", hits
    yield "vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", counts.prompt_tokens
    yield "vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", counts.answer_tokens
    yield "vllm:request_success_total", "counter", "Count of successfully processed requests.", counts.requests


def _sglang_rows(counts: MockCounts, cache_usage: float) -> Iterator[_Row]:
    """Yield the metrics that SGLang 0.4 and later has under these names."""
    rate = counts.cached_tokens / counts.looked_up_tokens if counts.looked_up_tokens else 0.0
    yield "sglang:num_running_reqs", "gauge", "The number of running requests.", counts.running
    yield "sglang:num_queue_reqs", "gauge", "The number of requests in the waiting queue.", counts.waiting
    yield "sglang:token_usage", "gauge", "The token usage.", cache_usage
    yield "sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", rate
    yield "sglang:prompt_tokens_total", "counter", "Number of prefill tokens processed.", counts.prompt_tokens
    yield "sglang:generation_tokens_total", "counter", "Number of generation tokens processed.", counts.answer_tokens
    yield "sglang:cached_tokens_total", "counter", "Number of cached prompt tokens.", counts.cached_tokens
    yield "sglang:num_requests_total", "counter", "Number of requests processed.", counts.requests
