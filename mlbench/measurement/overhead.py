"""mlbench's own overhead, measured with the run's engine and graphs that cost nothing."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, replace

from mlbench.contracts.engine import Samples
from mlbench.contracts.load_pattern import Arrivals
from mlbench.contracts.model import Model
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.errors import MlbenchError, describe_error
from mlbench.execution.processes.channel import Channel
from mlbench.execution.speed_estimate import SpeedEstimate, measure_single_queries, measure_speed
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job, callbacks_to, test_of
from mlbench.measurement.running_engine import RunningEngine, typical_indices
from mlbench.rules.tiers import RunLimits

logger = logging.getLogger(__name__)

_STAGE = "overhead"
_TEST_S = 0.2
_FREE_S = 0.25
"""Seconds of each part of a trial without graphs, by which the test is sized."""
_COMPUTING_S = 2.0
_LONGEST_S = 2.0
"""Time limit of a test with few queries, if it has at least three."""
_FEWEST_QUERIES = 64
_MOST_SAMPLES = 10_000
_SERVER_LOAD = 0.25
"""Server rate as a share of the one-at-a-time rate: low enough that arrivals rarely overlap."""
_KEPT_UP = 0.9
_TRIES = 5
"""Tests at most: in the first, shapes may occur that were not seen before, and computed."""
_COMPUTED_SHARE = 0.02
"""Share of calls that may be computed when single queries are timed: the median ignores so few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """The overhead, or why it is unknown."""

    ns_per_sample: int | None = None
    reason: str = ""
    """Reason why it was not measured; empty if it was."""


class _NotMeasurableError(Exception):
    pass


def measure_overhead(  # noqa: PLR0913 - a test has these parts
    job: Job, model: Model, limits: RunLimits, ready: RunningEngine, *, pace: SpeedEstimate, channel: Channel
) -> Overhead:
    """Return the overhead per sample: from the rate in Offline, otherwise from the median latency.

    It is the run's own engine, with its batching, workers, instances and program, driven by LoadGen on some samples of
    the run's dataset, below saturation. Its graphs return earlier outputs (`Engine.replay_graphs`): call this last.

    Args:
        job: what was run.
        model: the same.
        limits: of the run.
        ready: its engine.
        pace: of the engine with its graphs: it bounds how long it takes to let each shape be computed once.
        channel: told how it goes.
    """
    try:
        if reason := ready.engine.replay_graphs():
            return Overhead(reason=str(reason))
        return Overhead(ns_per_sample=_Trial(job, model, limits, ready, channel).measure(pace))
    except (_NotMeasurableError, MlbenchError) as error:
        logger.warning("the overhead was not measured: %s", error)
        return Overhead(reason=str(error).rstrip("."))
    except Exception as error:  # a plugin's code; the run has been measured by now
        logger.exception("the overhead was not measured")
        return Overhead(reason=describe_error(error))


@dataclass(frozen=True, slots=True)
class _Trial:
    job: Job
    model: Model
    limits: RunLimits
    ready: RunningEngine
    channel: Channel

    def measure(self, pace: SpeedEstimate) -> int:
        """Return nanoseconds per sample.

        Raises:
            _NotMeasurableError: the engine computes, cannot keep up, or answers unsoundly.
            InvalidRunError: a sample failed.
            MlbenchError: LoadGen left no log.
        """
        dataset, size = self.ready.dataset, self.job.scenario.query_size(self.job.load)
        few = max(1, size, int(_COMPUTING_S * pace.rate_per_s))
        indices = typical_indices(dataset, few)
        free = self._free_pace(indices, size)
        load = self._fit_samples(self._load(free, len(indices), size))
        # a computed call delays all after it at a rate, and is part of the total in Offline; single queries have a
        # median
        allowed = _COMPUTED_SHARE if self.job.scenario.waits_for_answers else 0.0
        for tries in range(1, _TRIES + 1):
            detail = self._drive(load)
            values = detail.values
            computed_share = self._share_computed()
            sent_per_s = values.get("result_scheduled_samples_per_sec", 0.0)
            rate_per_s = values.get("result_completed_samples_per_sec", sent_per_s)
            if computed_share <= allowed and rate_per_s >= _KEPT_UP * sent_per_s:
                return overhead_ns(detail, self.job.scenario)
            if self.job.scenario.sends_rate and tries > 1:
                calmer_per_s = load.target_qps / 4
                calmer = replace(load, target_qps=calmer_per_s, min_query_count=_queries(calmer_per_s))
                load = self._fit_samples(calmer)
        if computed_share > allowed:
            raise _NotMeasurableError(f"{computed_share:.1%} of the graph calls had shapes that were not seen before")
        raise _NotMeasurableError(
            f"even without graphs it answered {rate_per_s:,.1f} of {sent_per_s:,.1f} samples/s sent"
        )

    def _free_pace(self, indices: list[int], size: int) -> SpeedEstimate:
        """Return the speed without graphs; the first trial computes each shape once."""
        dataset, timeout_s = self.ready.dataset, self.job.load.stall_timeout_s
        measure = measure_speed if self.job.scenario.sends_all_at_once else measure_single_queries
        dataset.load(indices)
        samples = Samples(list(range(len(indices))), indices, dataset)
        for _ in range(2):
            self.channel.progress(_STAGE)
            pace = measure(self.ready.engine, samples, size, timeout_s, budget_s=_FREE_S)
        dataset.unload(indices)
        return pace

    def _load(self, free: SpeedEstimate, loaded: int, size: int) -> LoadSettings:
        """Return how to drive the engine for some tenths of a second, or some seconds where the program is slow."""
        target_qps = _SERVER_LOAD * 1e9 / free.latency_ns
        match self.job.scenario.pattern.arrivals:
            case Arrivals.ALL_AT_ONCE:
                queries, target_qps = max(loaded, int(_TEST_S * free.rate_per_s)), 1.0
            case Arrivals.AT_A_RATE:
                queries = _queries(target_qps)
            case Arrivals.ONE_BY_ONE:
                queries = _queries(1e9 / free.latency_ns)
        return replace(
            self.job.load,
            min_duration_ms=1,
            min_query_count=min(queries, _MOST_SAMPLES // size),
            performance_sample_count=loaded,
            target_qps=target_qps,
            expected_latency_ns=max(1, free.fastest_ns // 4),
            reply_checks=0,
            end_at_late_share=0.0,
        )

    def _fit_samples(self, load: LoadSettings) -> LoadSettings:
        """Return a load that has no more samples than queries where LoadGen sends each as often as the others."""
        if not self.limits.equal_issue:
            return load
        samples = load.min_query_count * self.job.scenario.query_size(self.job.load)
        return replace(load, performance_sample_count=min(load.performance_sample_count, samples))

    def _drive(self, load: LoadSettings) -> DetailLog:
        """Let LoadGen drive the engine; return what its log says."""
        folder, engine = self.job.folder / _STAGE, self.ready.engine
        shutil.rmtree(folder, ignore_errors=True)
        engine.statistics(), engine.calls()
        test = test_of(self.job, self.model, self.limits, load, Mode.PERFORMANCE)
        callbacks = callbacks_to(self.channel, _STAGE, test, self.ready.dataset.count)
        traffic = drive(test, engine, self.ready.dataset, folder, callbacks, network=self.ready.network)
        if traffic.faults:
            raise _NotMeasurableError(f"without graphs a reply was not sound: {traffic.faults[0]}")
        return read_detail(folder / DETAIL)

    def _share_computed(self) -> float:
        """Return the share of the last test's graph calls that was computed."""
        engine = self.ready.engine
        computed = engine.statistics().computed_calls or 0
        return computed / max(1, sum(call.count for call in engine.calls()))


def overhead_ns(detail: DetailLog, scenario: Scenario) -> int:
    """Return nanoseconds per sample by the log of a test without graphs: of the rate, or the median latency.

    Raises:
        KeyError: the log does not hold it.
    """
    if scenario.sends_all_at_once:
        return round(1e9 / float(detail.values[scenario.pattern.rate_key]))
    return int(detail.values["result_50.00_percentile_latency_ns"])


def _queries(rate_per_s: float) -> int:
    """Return how many queries a test has in which so many are sent or answered per second."""
    return max(3, int(_TEST_S * rate_per_s), min(_FEWEST_QUERIES, int(_LONGEST_S * rate_per_s)))
