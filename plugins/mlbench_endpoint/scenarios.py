"""Kinds of load for a server: a rate of requests, or a number of concurrent requests."""

from __future__ import annotations

from mlbench import Scenario

RATE = Scenario(
    name="Rate",
    title="requests arrive at random at a mean rate; LoadGen times tokens from when a request was due",
    loadgen="Server",
    result_key="result_completed_samples_per_sec",
    result_unit="samples/s",
    percentile=0.90,  # believable with 44 requests; the 99th wants 459
    early_stopping=True,
)

CONCURRENCY = Scenario(
    name="Concurrency",
    title="a fixed number of concurrent requests (backend.connections); tokens per second",
    loadgen="Offline",
    result_key="result_samples_per_second",
    result_unit="samples/s",
    percentile=None,
    early_stopping=False,
)
