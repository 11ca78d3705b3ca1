"""Kinds of load for a server: a rate of requests, a number of concurrent requests, or a schedule."""

from __future__ import annotations

from mlbench import Scenario

LEAST_AT_A_RATE = 44
"""Requests without which LoadGen's early stopping believes no 90th percentile."""

RATE = Scenario(
    name="Rate",
    title="requests arrive at random at a mean rate; LoadGen times tokens from when a request was due",
    loadgen="Server",
    result_key="result_completed_samples_per_sec",
    result_unit="samples/s",
    percentile=0.90,  # the 99th wants 459 requests
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

SCHEDULE = Scenario(
    name="Schedule",
    title="requests at the times of a trace or an arrival pattern (workload.trace, workload.arrival); tokens/s",
    loadgen="Offline",
    result_key="result_samples_per_second",
    result_unit="samples/s",
    percentile=None,
    early_stopping=False,
    settings={"load.target_qps": 0.001},  # LoadGen sends each sample once; at a higher rate it would repeat some
)
