"""LoadGen's four ways to send queries. A scenario is one of them with its own settings and result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MOMENT = "%m-%d-%Y %H:%M:%S.%f"
"""Format of the UTC times at which a test began and ended (``power_begin``, ``power_end``) in LoadGen's logs."""


class Arrivals(StrEnum):
    """When LoadGen sends a query."""

    ONE_BY_ONE = "one by one"
    """Sends a query when the previous one is answered."""
    AT_A_RATE = "at a rate"
    """Sends queries at random times with a requested mean rate (a Poisson process)."""
    ALL_AT_ONCE = "all at once"
    """Sends all samples in one query at the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPattern:
    """One of the four, and its names in LoadGen's settings and log.

    Source of the keys: LoadGen's test_settings.h and results.cc.
    """

    name: str
    """LoadGen's name of the scenario."""
    arrivals: Arrivals
    settings: Mapping[str, str]
    """LoadGen's settings by the field of `LoadSettings` that fills them; its log says ``requested_<setting>``."""
    percentile_setting: str | None = None
    """LoadGen's setting for the percentile that it judges; None where it judges no latency."""
    rate_key: str = ""
    """The log's key of the samples completed per second; empty where there is none."""
    query_time_key: str = ""
    """The log's key of the mean time of a query, where queries are sent one by one."""


LOAD_PATTERNS: Mapping[str, LoadPattern] = {
    pattern.name: pattern
    for pattern in (
        LoadPattern(
            name="SingleStream",
            arrivals=Arrivals.ONE_BY_ONE,
            settings={"expected_latency_ns": "single_stream_expected_latency_ns"},
            percentile_setting="single_stream_target_latency_percentile",
            query_time_key="result_mean_latency_ns",
        ),
        LoadPattern(
            name="MultiStream",
            arrivals=Arrivals.ONE_BY_ONE,
            settings={
                "expected_latency_ns": "multi_stream_expected_latency_ns",
                "samples_per_query": "multi_stream_samples_per_query",
            },
            percentile_setting="multi_stream_target_latency_percentile",
            query_time_key="result_mean_query_latency_ns",
        ),
        LoadPattern(
            name="Server",
            arrivals=Arrivals.AT_A_RATE,
            settings={"target_qps": "server_target_qps", "coalesce_queries": "server_coalesce_queries"},
            percentile_setting="server_target_latency_percentile",
            rate_key="result_completed_samples_per_sec",
        ),
        LoadPattern(
            name="Offline",
            arrivals=Arrivals.ALL_AT_ONCE,
            settings={"target_qps": "offline_expected_qps"},
            rate_key="result_samples_per_second",
        ),
    )
}
"""By LoadGen's name, in the order of the rules."""
