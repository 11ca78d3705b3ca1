"""The tests of a run under LoadGen: of the accuracy, then of the performance, again where the chosen load was wrong."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.execution.pass_order import OrderedEngine
from mlbench.execution.processes.channel import Channel
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.drive import Traffic, drive
from mlbench.loadgen.logs import DETAIL, read_detail, samples_per_s
from mlbench.loadgen.settings import Mode, choose_coalescing
from mlbench.measurement.audited import audit_text
from mlbench.measurement.chosen_load import LONG_MS, fill_load, least_duration_ms, with_observed_speed
from mlbench.measurement.job import Job, callbacks_to, test_of
from mlbench.measurement.running_engine import RunningEngine, repeat_slow_trial, time_longer, warm_up
from mlbench.measurement.server_rate import RateBracket
from mlbench.measurement.shared_accuracy import earlier_speed
from mlbench.rules.tiers import RunLimits
from mlbench.system.guards import log_errors

logger = logging.getLogger(__name__)

_NO_STATISTICS = "the engine's statistics are not available"

_UNMEASURED = nullcontext()
_ACCURACY_SPEED = 20
_ACCURACY_S = 1.0  # in which a language model's accuracy test sends its samples
_MOST_TESTS = 5  # each that was too short shows a speed nearer to the real one


@dataclass(frozen=True, slots=True)
class LoadGenTests:
    """The tests of one run: an accuracy test where a metric wants it, then the performance test."""

    job: Job
    model: Model
    dataset: Dataset
    limits: RunLimits
    channel: Channel
    ready: RunningEngine

    def warm_up(self, *, has_metric: bool) -> SpeedEstimate:
        """Warm the engine up; what another test shows of its speed is not looked for here."""
        spec = self.job.spec
        known_per_s = None if self.job.scenario.waits_for_answers else earlier_speed(spec)
        is_tested_next = has_metric and not spec.accuracy_of
        pace = warm_up(self.ready, self.job, self.model, known_per_s=known_per_s, is_tested_next=is_tested_next)
        if self.job.scenario.sends_all_at_once and least_duration_ms(self.job.load, self.limits) >= LONG_MS:
            pace = time_longer(self.ready, self.job, pace)  # a test with too few samples is made again
        return pace

    def drive_accuracy(self, pace: SpeedEstimate) -> tuple[Traffic, SpeedEstimate]:
        """Send every sample once, and refine the speed estimate."""
        load = fill_load(self.job.load, self.limits, pace)
        # Poisson arrivals are at the target rate in an accuracy test too; nothing is timed there, so send faster
        started = time.perf_counter()
        is_language = isinstance(self.model.program, GenerationProgram)
        # many at once are answered in little more time than one, and what they show is the speed at saturation
        target_qps = max(_ACCURACY_SPEED * load.target_qps, self.dataset.count / _ACCURACY_S if is_language else 0.0)
        traffic = self.drive(Mode.ACCURACY, dataclasses.replace(load, target_qps=target_qps))
        whole_per_s = traffic.answered / (time.perf_counter() - started)
        rate_per_s = max(whole_per_s, _steady_speed(self.ready.engine) if is_language else 0.0)
        if not traffic.faults:
            pace = repeat_slow_trial(self.ready, self.job, self.model, pace, seen_per_s=rate_per_s)
        return traffic, pace.with_seen(rate_per_s, is_saturated=is_language)

    def drive_performance(
        self, pace: SpeedEstimate, section: AbstractContextManager[object]
    ) -> tuple[Traffic, LoadSettings, OrderedEngine | None]:
        """Measure; measure again, a few times at most, where the settings that mlbench chose were wrong.

        LoadGen prepares its samples beforehand, by an estimated rate, and a trial on a busy machine estimates too low;
        so does a short test whose first query was slow. In Server the rate that a probe sustained may be too high for
        the whole test. What the user gave is kept. A test with invalid replies is never repeated: the next one might
        hide them.
        """
        search = RateBracket(self.job, self.model, self.limits, self.ready, self.channel)
        load = fill_load(self.job.load, self.limits, pace)
        if search.is_needed:
            load = dataclasses.replace(load, target_qps=search.find_rate(pace, load))
        for tests in itertools.count(1):
            traffic, ordered = self._measured(load, section)
            if traffic.faults:
                break
            if search.is_needed:
                again = search.lower_after(load, pace, tests)
            else:
                again, pace = self._with_more_samples(load, pace, tests)
            if again is None:
                break
            load = again
        return traffic, choose_coalescing(load, self.job.scenario), ordered

    def _with_more_samples(
        self, load: LoadSettings, pace: SpeedEstimate, tests: int
    ) -> tuple[LoadSettings | None, SpeedEstimate]:
        """Return what to test next where LoadGen ran out of samples, None where it did not, and the speed seen."""
        folder = self.job.folder / Mode.PERFORMANCE
        detail = read_detail(folder / DETAIL)
        pace = with_observed_speed(pace, detail, self.job.scenario)
        seen_qps = samples_per_s(detail, self.job.scenario) or 0.0
        again = fill_load(self.job.load, self.limits, pace, seen_qps=seen_qps)
        settings = self.job.scenario.pattern.settings
        is_same_test = all(getattr(again, name) == getattr(load, name) for name in settings)
        if tests >= _MOST_TESTS or detail.values.get("result_min_duration_met") or is_same_test:
            return None, pace
        logger.info("too few samples for %d ms: again, with %s", load.min_duration_ms, again)
        shutil.rmtree(folder)
        return again, pace

    def prompt_lengths(self, indices: Sequence[int]) -> list[int]:
        """Return the prompt lengths of a language model's samples, in tokens; loads the samples."""
        program = self.model.program
        assert isinstance(program, GenerationProgram)
        self.dataset.load(indices)
        lengths = [len(program.prompt(self.dataset.sample(index)).tokens) for index in indices]
        self.dataset.unload(indices)
        return lengths

    def _measured(
        self, load: LoadSettings, section: AbstractContextManager[object]
    ) -> tuple[Traffic, OrderedEngine | None]:
        _reset_counts(self.ready.engine)
        is_language = isinstance(self.model.program, GenerationProgram)
        if not is_language or self.limits.offline_min_samples is None:
            return self.drive(Mode.PERFORMANCE, load, section), None
        ordered = OrderedEngine(self.ready.engine)
        return self.drive(Mode.PERFORMANCE, load, section, ordered), ordered

    def drive(
        self,
        mode: Mode,
        load: LoadSettings,
        section: AbstractContextManager[object] = _UNMEASURED,
        engine: Engine | None = None,
    ) -> Traffic:
        """Let LoadGen drive the engine; its logs are in the run folder, under the mode's name."""
        test = test_of(self.job, self.model, self.limits, load, mode)
        if mode is Mode.PERFORMANCE:
            test = dataclasses.replace(test, audit=audit_text(self.job))
        self.channel.progress(mode)
        callbacks = callbacks_to(self.channel, mode, test, self.ready.dataset.count)
        folder = self.job.folder / mode
        engine, network = engine or self.ready.engine, self.ready.network
        return drive(test, engine, self.ready.dataset, folder, callbacks, section=section, network=network)


def _steady_speed(engine: Engine) -> float:
    """Return the samples per second of a test of a language model without its tail; 0 where the engine does not say."""
    counted = None
    with log_errors(logger, _NO_STATISTICS):
        counted = engine.statistics()
    return (isinstance(counted, GenerationStatistics) and counted.steady_samples_per_s) or 0.0


def _reset_counts(engine: Engine) -> None:
    """Reset an engine's statistics: those so far are not of the measured part."""
    for question in (engine.statistics, engine.calls):
        with log_errors(logger, _NO_STATISTICS):  # if needed, the reason goes into the record
            question()
