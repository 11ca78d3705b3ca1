"""The official scenarios and one that is not official, registered like a plugin's.

Result keys and percentiles: MLPerf Inference v4.1 submission checker. Server counts completed samples since v4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlbench.contracts.hookspecs import hookimpl
from mlbench.contracts.scenario import Scenario

SINGLE_STREAM = Scenario(
    name="SingleStream",
    title="one sample at a time; the 90th percentile latency",
    loadgen="SingleStream",
    result_key="early_stopping_latency_ss",
    result_unit="ns",
    percentile=0.90,
    early_stopping=True,
    settings={"execution.batching": "inline"},
)
MULTI_STREAM = Scenario(
    name="MultiStream",
    title="eight samples at a time; the 99th percentile latency of a query",
    loadgen="MultiStream",
    result_key="early_stopping_latency_ms",
    result_unit="ns",
    percentile=0.99,
    early_stopping=True,
    # of 662 queries LoadGen's estimate is the slowest, of 1157 the fourth: a hiccup of the machine is not the result
    settings={"execution.batching": "inline", "load.min_query_count": 1157},
)
SERVER = Scenario(
    name="Server",
    title="samples arrive at random under a latency limit; completed samples per second",
    loadgen="Server",
    result_key="result_completed_samples_per_sec",
    result_unit="samples/s",
    percentile=0.99,
    early_stopping=True,
    # by early stopping 459 queries allow none to be late, 838 two: a hiccup of the machine does not cost the run
    settings={"execution.batching": "dynamic", "load.min_query_count": 838},
)
INTERACTIVE = replace(
    SERVER,
    name="Interactive",
    title="as Server, under tighter latency limits; in the rounds that define it",
    rules="Interactive",
)
"""A scenario of LoadGen's Server: rounds have limits of their own for it."""
OFFLINE = Scenario(
    name="Offline",
    title="all samples at once; samples per second",
    loadgen="Offline",
    result_key="result_samples_per_second",
    result_unit="samples/s",
    percentile=None,
    early_stopping=False,
    settings={"execution.batching": "bucketed"},
)
OPEN_STREAM = Scenario(
    name="SingleStream-open",
    title="batch 1, as framework benchmarks report it; samples or tokens per second; not an MLPerf scenario",
    loadgen="SingleStream",
    result_key="result_qps_with_loadgen_overhead",
    result_unit="samples/s",
    token_result_key="result_token_throughput_with_loadgen_overhead",
    percentile=0.90,
    early_stopping=False,
    settings={"execution.batching": "inline"},
    compared_by="result",
    is_beyond_rules=True,
)
"""Runs with every workload, those too that have no SingleStream: none of its runs is of an official scenario."""

OFFICIAL = (SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE)
"""LoadGen's four, in the order in which reports list them."""


@hookimpl(trylast=True)  # hooks are collected from the last one on: the official scenarios are listed first
def mlbench_scenarios() -> Sequence[Scenario]:
    """Return the official scenarios, and the one that is not official."""
    return (*OFFICIAL, INTERACTIVE, OPEN_STREAM)
