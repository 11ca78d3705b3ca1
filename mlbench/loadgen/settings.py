"""A test, and LoadGen's settings for it, set attribute by attribute: nothing is read from files.

LoadGen 6.0.17 has the seeds of another round, and ignores seeds in configuration files: v4.1's are set here.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum

import mlperf_loadgen

from mlbench.contracts.reply_spec import ReplySpec
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.loadgen.lateness import LateLimits
from mlbench.wire.load_progress import Demand

_ROUNDING = 1e-6
_SPARE_QUERIES = 32
_COALESCED_QPS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """Seeds of LoadGen's random generators; a round of MLPerf publishes the first three."""

    qsl: int
    sample_index: int
    schedule: int
    accuracy_log: int
    """Picks the replies that a performance run keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Limits for workloads judged by tokens."""

    ttft_ms: float
    tpot_ms: float


class Mode(StrEnum):
    """The mode of a test."""

    ACCURACY = "accuracy"
    PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """A test for LoadGen to run."""

    __test__ = False  # not a test class for pytest

    scenario: Scenario
    mode: Mode
    load: LoadSettings
    reply: ReplySpec
    seeds: Seeds
    server_latency_ms: float | None = None
    tokens: TokenRules | None = None
    """None: replies carry no token counts."""
    inferred_tokens: int | None = None
    """Tokens that LoadGen counts for every sample, whatever its reply."""
    equal_issue: bool = False
    longest_answer: int = 1
    """Tokens in an answer at most."""
    is_remote: bool = False
    """Whether the engine is on other machines, one of which may be lost."""
    audit: str = ""
    """Text of the ``audit.config`` under which a performance test runs; empty: none."""

    @property
    def patience_s(self) -> float:
        """Return how long an answer can take in Server that keeps the limits."""
        if self.tokens:
            return (self.tokens.ttft_ms + (self.longest_answer - 1) * self.tokens.tpot_ms) / 1000
        return (self.server_latency_ms or 0) / 1000


def planned_queries(test: Test, sample_count: int) -> int:
    """Return how many queries LoadGen sends in Server over a dataset of ``sample_count`` samples, about."""
    count = max(test.load.min_query_count, math.ceil(test.load.target_qps * test.load.min_duration_ms / 1000))
    loaded = min(test.load.performance_sample_count or sample_count, sample_count)
    return math.ceil(count / loaded) * loaded if test.equal_issue else count


def late_allowed(test: Test, sample_count: int) -> int | None:
    """Return how many late queries end a test if there are more; None where none do."""
    share = test.load.end_at_late_share
    if not share or not test.scenario.sends_rate or test.mode is Mode.ACCURACY:
        return None
    return math.floor(share * planned_queries(test, sample_count) + _ROUNDING)


def late_limits(test: Test) -> LateLimits:
    """Return beyond what a query is late."""
    if test.tokens:
        return LateLimits(ttft_ns=round(test.tokens.ttft_ms * 1e6), tpot_ns=round(test.tokens.tpot_ms * 1e6))
    return LateLimits(latency_ns=round((test.server_latency_ms or 0) * 1e6))


def demand_of(test: Test, sample_count: int) -> Demand:
    """Return LoadGen's conditions for ending a test over a dataset of ``sample_count`` samples."""
    if test.mode is Mode.ACCURACY:
        return Demand(least_s=0.0, least_samples=sample_count)
    if test.scenario.sends_all_at_once:  # one query, as long as its samples take
        return Demand(least_s=0.0, least_samples=test.load.min_query_count)
    size = test.load.samples_per_query if "samples_per_query" in test.scenario.pattern.settings else 1
    return Demand(least_s=test.load.min_duration_ms / 1000, least_samples=test.load.min_query_count * size)


def loadgen_settings(test: Test, sample_count: int) -> mlperf_loadgen.TestSettings:
    """Return the settings of a test over a dataset of ``sample_count`` samples.

    Durations in milliseconds and counts must be filled in; see `mlbench.measurement.chosen_load`.
    """
    load = test.load
    settings = mlperf_loadgen.TestSettings()
    settings.scenario = getattr(mlperf_loadgen.TestScenario, test.scenario.loadgen)
    is_accuracy = test.mode is Mode.ACCURACY
    settings.mode = mlperf_loadgen.TestMode.AccuracyOnly if is_accuracy else mlperf_loadgen.TestMode.PerformanceOnly
    settings.qsl_rng_seed = test.seeds.qsl
    settings.sample_index_rng_seed = test.seeds.sample_index
    settings.schedule_rng_seed = test.seeds.schedule
    for name in ("qsl", "sample_index", "schedule"):  # a LoadGen that reads test05 from the file takes these
        setattr(settings, f"test05_{name}_rng_seed", getattr(test.seeds, name))
    settings.accuracy_log_rng_seed = test.seeds.accuracy_log
    settings.accuracy_log_sampling_target = 0 if is_accuracy else load.reply_checks
    settings.min_duration_ms = load.min_duration_ms
    settings.min_query_count = load.min_query_count
    settings.performance_sample_count_override = min(load.performance_sample_count, sample_count)
    settings.sample_concatenate_permutation = test.equal_issue
    _set_scenario(settings, test)
    if (most := late_allowed(test, sample_count)) is not None:
        settings.server_max_async_queries = _most_open(test, most)
    elif test.is_remote and test.scenario.sends_rate and test.mode is Mode.PERFORMANCE and test.patience_s:
        most = math.ceil((1 - (test.scenario.percentile or 0)) * planned_queries(test, sample_count))
        settings.server_max_async_queries = _most_open(test, most)  # so that a lost node can end it
    _set_tokens(settings, test)
    return settings


def choose_coalescing(load: LoadSettings, scenario: Scenario) -> LoadSettings:
    """Return settings whose rate is known with the choice whether overdue queries go to the engine in one call.

    LoadGen, its binding and the least Python take 3.2 us of a processor a query, so that no engine gets more than
    some 300,000 queries/s one by one (`benchmarks/overhead.py`); elsewhere than at a rate nothing is chosen.
    """
    if load.coalesce_queries != "auto" or not scenario.sends_rate:
        return load
    return dataclasses.replace(load, coalesce_queries=load.target_qps >= _COALESCED_QPS)


def _most_open(test: Test, most_late: int) -> int:
    """Return how many open queries end a test: LoadGen's only way to end one early.

    It never ends one that may be valid: what is open beyond the arrivals of the time that an answer may take is late.
    """
    return most_late + math.ceil(2 * test.load.target_qps * test.patience_s) + _SPARE_QUERIES


def _set_scenario(settings: mlperf_loadgen.TestSettings, test: Test) -> None:
    pattern = test.scenario.pattern
    load = choose_coalescing(test.load, test.scenario)
    for field, name in pattern.settings.items():
        setattr(settings, name, getattr(load, field))
    if pattern.percentile_setting:
        setattr(settings, pattern.percentile_setting, test.scenario.percentile)
    if test.scenario.sends_rate:
        settings.server_target_latency_ns = round((test.server_latency_ms or 0) * 1e6)


def _set_tokens(settings: mlperf_loadgen.TestSettings, test: Test) -> None:
    if test.tokens:
        settings.use_token_latencies = True
        settings.ttft_latency = round(test.tokens.ttft_ms * 1e6)
        settings.tpot_latency = round(test.tokens.tpot_ms * 1e6)
    if test.inferred_tokens:
        settings.infer_token_latencies = True
        settings.token_latency_scaling_factor = test.inferred_tokens
