"""The load that a test sends where the user left it open: the tier's lengths, and rates that follow from the speed."""

from __future__ import annotations

import dataclasses

from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.logs import DetailLog, samples_per_s
from mlbench.rules.tiers import RunLimits

LONG_MS = 60_000
"""A test of this length is long: to make it again costs more than to know the speed well before."""

_USUAL_SHARE = 0.5  # of the one-at-a-time rate, where no test has shown which rate is sustained
_STREAM_MARGIN = 4  # LoadGen prepares queries for twice the duration, and running out of them is an error
_MOST_QUERIES = 4_000_000  # that LoadGen prepares for the margin: each takes a third of a kilobyte
_LEAST_QUERY_NS = 1000  # no query passes LoadGen and a backend in less, and each that is prepared takes as long
_LEAST_EQUAL_NS = 10_000  # likewise where LoadGen sends all that it prepared: what it takes for each counts, too
_EQUAL_SHARE = 0.8  # of the usual time of a query there; a test that is too short all the same is made again
_OFFLINE_MARGIN = 1.2  # on top of LoadGen's own tenth: a test with too few samples is made again, with more
_LONG_OFFLINE_MARGIN = 1.1  # a fifth of ten minutes would be long
_PLATEAU_MARGIN = 1.05  # likewise, where the speed was seen to stay; another short test costs little
_GUESSED_MOST_QPS = 1e6  # LoadGen prepares all samples before it starts: a wild guess would fill the memory


def fill_load(load: LoadSettings, limits: RunLimits, pace: SpeedEstimate, *, seen_qps: float = 0.0) -> LoadSettings:
    """Return the settings with every 0 replaced: by the tier's value, or by an estimate from the speed.

    ``seen_qps`` is the rate that LoadGen saw in a test that was too short.
    """
    share = _USUAL_SHARE if load.server_load == "auto" else load.server_load
    served_per_s = share * pace.sustained_per_s
    min_duration_ms = least_duration_ms(load, limits)
    margin = _PLATEAU_MARGIN if pace.is_plateau else _OFFLINE_MARGIN
    if min_duration_ms >= LONG_MS:
        margin = _LONG_OFFLINE_MARGIN
    offered_per_s = min(margin * pace.rate_per_s, max(_GUESSED_MOST_QPS, margin * seen_qps))
    is_offline = limits.offline_min_samples is not None
    expected_ns = pace.fastest_ns
    if limits.equal_issue:  # for that LoadGen sends all queries that it prepared
        usual_ns = 0 if seen_qps else _LEAST_EQUAL_NS
        if not seen_qps and min_duration_ms < LONG_MS:
            usual_ns = max(usual_ns, round(_EQUAL_SHARE * pace.latency_ns))
        expected_ns = max(expected_ns, usual_ns)
    else:
        shortest_ns = 2 * min_duration_ms * 1_000_000 // _MOST_QUERIES
        expected_ns = min(expected_ns, max(expected_ns // _STREAM_MARGIN, shortest_ns))
    return dataclasses.replace(
        load,
        min_duration_ms=min_duration_ms,
        min_query_count=load.min_query_count or limits.offline_min_samples or limits.min_query_count,
        performance_sample_count=load.performance_sample_count or limits.performance_sample_count,
        target_qps=load.target_qps or (offered_per_s if is_offline else served_per_s),
        expected_latency_ns=load.expected_latency_ns or max(_LEAST_QUERY_NS, expected_ns),
    )


def least_duration_ms(load: LoadSettings, limits: RunLimits) -> int:
    """Return how long the performance test lasts at least."""
    return load.min_duration_ms or limits.min_duration_ms


def with_observed_speed(pace: SpeedEstimate, detail: DetailLog, scenario: Scenario) -> SpeedEstimate:
    """Return the speed that a test showed, if that is faster; in Server the rate was chosen, and shows nothing."""
    rate_per_s = samples_per_s(detail, scenario)
    if scenario.sends_rate or not rate_per_s:
        return pace
    query_ns = round(detail.values["generated_samples_per_query"] * 1e9 / rate_per_s)
    return dataclasses.replace(
        pace, rate_per_s=max(pace.rate_per_s, rate_per_s), fastest_ns=min(pace.fastest_ns, query_ns)
    )
