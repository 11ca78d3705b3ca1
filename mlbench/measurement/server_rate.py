"""The rate of a Server run that was given none: one that the engine was seen to sustain, in a short test by LoadGen."""

from __future__ import annotations

import logging
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlbench.contracts.model import Model
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.processes.channel import Channel
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job, callbacks_to, test_of
from mlbench.measurement.running_engine import RunningEngine, repeat_trial
from mlbench.rules.early_stopping import queries_needed
from mlbench.rules.tiers import RunLimits

logger = logging.getLogger(__name__)

STAGE = "rate"
"""The stage of a run, and the folder of its last probe's logs."""

_SHARE, _LONG_SHARE = 0.6, 0.8
"""First rate, as a share of the most samples per second that were seen; the second one where the first makes a run
long."""
_MOST_SINGLE = 4.0
"""First rate at most, in rates of one sample at a time: a second says little of what a queue of thousands does."""
_HIGHER = 2.5
"""Where that rate is sustained, ever higher ones are probed: a GPU may answer a hundred samples in the time of one."""
_LOWER = 0.6
_MOST_TESTS = 3
"""A probe is shorter than the test, and may see nothing of what comes once in a few seconds. Where the whole test shows
that its rate is not sustained, it is made again at a lower one; a busy machine must not keep it going for ever."""
_LEAST_SINGLE = 0.25
"""Lowest rate, in rates of one sample at a time: no queue grows there, and answers are late because the machine paused,
which a lower rate does not help. It would only make the run longer."""
_LIMIT_SHARE = 0.5
"""A probe must meet this share of the latency limits, so that a longer test has room for a pause."""
_LATE_SHARE = 0.01
_KEPT_UP = 0.75
_GROWTH = 2.0
"""Latencies that become so many times as long within a probe may be those of a queue that never ends. A probe can be
too short for it to reach the limit, and the test that follows is longer."""
_LONGER = 2
_PROBE_S, _PROBE_SHARE = 1.0, 0.01
"""How long a probe sends, in seconds and as a share of the run's duration: whichever is longer."""
_FEWEST_QUERIES, _FEWEST_SLOW, _MOST_QUERIES = 64, 8, 20_000
_LONGEST_S = 10.0
_LONG_RUN = 3.0
"""A test that takes so many times its least duration is long: worth another look at the engine's speed, and a first
rate nearer to it."""


@dataclass(frozen=True, slots=True)
class RateBracket:
    """Looks for a rate between nothing and what the engine answered many at once."""

    job: Job
    model: Model
    limits: RunLimits
    ready: RunningEngine
    channel: Channel

    @property
    def is_needed(self) -> bool:
        """Return whether the run has to choose its rate, and was not given a share of the trial's."""
        load = self.job.load
        return self.job.scenario.sends_rate and not load.target_qps and load.server_load == "auto"

    def find_rate(self, pace: SpeedEstimate, load: LoadSettings) -> float:
        """Return the first of ever lower rates that a probe shows to be sustained; the least where none is.

        Where the rate of one sample at a time kept the first one low, and it is sustained, ever higher ones are probed.

        Args:
            pace: of the engine: the trial's, and the accuracy test's where there was one.
            load: of the performance test, with its least duration and count filled in.
        """
        rate_per_s = _first_rate(pace)
        is_long = self._is_long(load, rate_per_s)
        is_by_trial = not pace.is_tested or rate_per_s < _SHARE * _most_per_s(pace)
        if is_long and is_by_trial:  # or was the machine busy just then?
            pace = repeat_trial(self.ready, self.job, self.model, pace)
            rate_per_s = max(rate_per_s, _first_rate(pace))
        if pace.is_tested and self._is_long(load, rate_per_s):
            rate_per_s = max(rate_per_s, _first_rate(pace, _LONG_SHARE))
        least_per_s = min(rate_per_s, _LEAST_SINGLE * pace.sustained_per_s)

        def is_held(tried_per_s: float) -> bool:
            found = self._is_held(replace(load, target_qps=tried_per_s))
            logger.info("a rate of %.4g/s was %s", tried_per_s, "sustained" if found else "not sustained")
            return found

        held_per_s = hold_rate(rate_per_s, least_per_s, is_held)
        if least_per_s < held_per_s == rate_per_s:  # the least is not probed
            return raise_rate(held_per_s, _SHARE * _most_per_s(pace), is_held)
        return held_per_s

    @staticmethod
    def _is_long(load: LoadSettings, rate_per_s: float) -> bool:
        return load.min_query_count / rate_per_s > _LONG_RUN * load.min_duration_ms / 1000

    def lower_after(self, load: LoadSettings, pace: SpeedEstimate, tests: int) -> LoadSettings | None:
        """Return what to test next where a performance test met too much that was late; its logs become a probe's.

        Args:
            load: of that test, whose logs are in the run's folder.
            pace: the engine's, which sets the least rate.
            tests: how many there were so far.

        Returns:
            The same with a lower rate; None where the rate was sustained, or is the least that is tried, or the test
            was the last, or had too few queries to show either.
        """
        tested, least_per_s = self.job.folder / Mode.PERFORMANCE, _LEAST_SINGLE * pace.sustained_per_s
        is_last = tests >= _MOST_TESTS or load.target_qps <= least_per_s
        if is_last or not _is_late(read_detail(tested / DETAIL), self.job.scenario.percentile):
            return None
        lower = replace(load, target_qps=max(_LOWER * load.target_qps, least_per_s))
        logger.info("too many were late in a test at %.4g/s: again, at %.4g/s", load.target_qps, lower.target_qps)
        shutil.rmtree(self.job.folder / STAGE, ignore_errors=True)
        tested.rename(self.job.folder / STAGE)
        return lower

    def _is_held(self, load: LoadSettings) -> bool:
        """Return whether a probe sustains its rate; one whose latencies grow is made again, longer."""
        probe = _probe_of(load)
        is_held, is_growing = self._try(probe)
        if is_held and is_growing:
            is_held, is_growing = self._try(replace(probe, min_query_count=_LONGER * probe.min_query_count))
            return is_held and not is_growing
        return is_held

    def _try(self, probe: LoadSettings) -> tuple[bool, bool]:
        """Return whether a test keeps a part of the limits, and whether its latencies grow.

        It counts as sustained where its replies are not sound, too: the test that follows says what is wrong with them.
        """
        folder = self.job.folder / STAGE
        shutil.rmtree(folder, ignore_errors=True)
        self.channel.progress(STAGE)
        test = test_of(self.job, self.model, self._strict_limits(), probe, Mode.PERFORMANCE)
        callbacks = callbacks_to(self.channel, STAGE, test, self.ready.dataset.count)
        traffic = drive(test, self.ready.engine, self.ready.dataset, folder, callbacks, network=self.ready.network)
        assert traffic.late
        if traffic.late.is_ended or traffic.late.late > traffic.late.most:
            return False, True
        if traffic.faults:
            return True, False
        values = read_detail(folder / DETAIL).values
        sent_per_s = values.get("result_scheduled_samples_per_sec", 0.0)
        is_held = bool(values.get("result_completed_samples_per_sec", sent_per_s) >= _KEPT_UP * sent_per_s)
        return is_held, is_growing(traffic.late.latencies_ns)

    def _strict_limits(self) -> RunLimits:
        latency_ms, ttft_ms, tpot_ms = (
            value and _LIMIT_SHARE * value
            for value in (self.limits.server_latency_ms, self.limits.ttft_ms, self.limits.tpot_ms)
        )
        return replace(self.limits, server_latency_ms=latency_ms, ttft_ms=ttft_ms, tpot_ms=tpot_ms, equal_issue=False)


def hold_rate(rate_per_s: float, least_per_s: float, is_held: Callable[[float], bool]) -> float:
    """Return the first rate that is sustained, of one and ever lower ones; the least where none above it is."""
    while rate_per_s > least_per_s:
        if is_held(rate_per_s):
            return rate_per_s
        rate_per_s *= _LOWER
    return least_per_s


def raise_rate(rate_per_s: float, most_per_s: float, is_held: Callable[[float], bool]) -> float:
    """Return the last of ever higher rates before one that is not sustained; at most the highest."""
    while rate_per_s < most_per_s:
        higher_per_s = min(_HIGHER * rate_per_s, most_per_s)
        if not is_held(higher_per_s):
            break
        rate_per_s = higher_per_s
    return rate_per_s


def _is_late(detail: DetailLog, percentile: float | None) -> bool:
    """Return whether LoadGen found too many late in a test that had enough queries to be valid."""
    values = detail.values
    if values.get("result_perf_constraints_met") is False:
        return True
    is_enough = percentile is not None and values.get("result_query_count", 0) >= queries_needed(0, percentile)
    return is_enough and values.get("early_stopping_met") is False


def is_growing(latencies_ns: Sequence[int]) -> bool:
    """Return whether the last third of latencies is much longer than the first, by their medians.

    A pause of the machine moves no median unless it lasts for half of a third.
    """
    third = len(latencies_ns) // 3
    if not third:
        return False
    return statistics.median(latencies_ns[-third:]) > _GROWTH * statistics.median(latencies_ns[:third])


def _first_rate(pace: SpeedEstimate, share: float = _SHARE) -> float:
    return min(share * _most_per_s(pace), _MOST_SINGLE * pace.sustained_per_s)


def _most_per_s(pace: SpeedEstimate) -> float:
    return max(pace.rate_per_s, pace.sustained_per_s)


def _probe_of(load: LoadSettings) -> LoadSettings:
    """Return the load of a short test at the same rate."""
    seconds = max(_PROBE_S, _PROBE_SHARE * load.min_duration_ms / 1000)
    usual = min(_MOST_QUERIES, max(_FEWEST_QUERIES, int(seconds * load.target_qps)))
    queries = max(_FEWEST_SLOW, min(usual, int(_LONGEST_S * load.target_qps)))
    return replace(load, min_duration_ms=1, min_query_count=queries, reply_checks=0, end_at_late_share=_LATE_SHARE)
