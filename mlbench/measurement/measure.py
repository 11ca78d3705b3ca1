"""One run, inside its own process."""

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
from mlbench.contracts.engine import Engine, GraphCalls
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.runtime_facts import UNKNOWN
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.discovery import Plugins
from mlbench.execution.channel import Channel
from mlbench.execution.pass_order import OrderedEngine
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.execution.stage_times import WARM_UP
from mlbench.loadgen.drive import Traffic, drive
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail, samples_per_s, tokens_of
from mlbench.loadgen.settings import Mode
from mlbench.measurement.audited import audit_text, audited_limits
from mlbench.measurement.exports_ahead import exports_ahead
from mlbench.measurement.instance_sweep import choose_instances
from mlbench.measurement.job import Job, callbacks_to, test_of
from mlbench.measurement.judging import judge_run
from mlbench.measurement.kept_batch import KeptBatch
from mlbench.measurement.metering import Metering
from mlbench.measurement.operation_counts import count_operations, work_of
from mlbench.measurement.other_work import OtherWork
from mlbench.measurement.overhead import Overhead, measure_overhead
from mlbench.measurement.plugin_facts import PluginFacts
from mlbench.measurement.running_engine import RunningEngine, open_engine, repeat_slow_trial, time_longer, warm_up
from mlbench.measurement.server_rate import RateBracket
from mlbench.measurement.shared_accuracy import earlier_speed, take_accuracy_test
from mlbench.measurement.spot_check import spot_check
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_outcome import RunOutcome
from mlbench.rules.own import rules_of
from mlbench.rules.tiers import RunLimits, fit_to, limits_of, with_own_limits

logger = logging.getLogger(__name__)

_UNMEASURED = nullcontext()
_ACCURACY_SPEED = 20
_ACCURACY_S = 1.0  # in which a language model's accuracy test sends its samples
_USUAL_SHARE = 0.5  # of the one-at-a-time rate, where no test has shown which rate is held
_STREAM_MARGIN = 4  # LoadGen prepares queries for twice the duration, and running out of them is an error
_MOST_QUERIES = 4_000_000  # that LoadGen prepares for the margin: each takes a third of a kilobyte
_LEAST_QUERY_NS = 1000  # no query passes LoadGen and a backend in less, and each that is prepared takes as long
_MOST_TESTS = 5  # each that was too short shows a speed nearer to the real one
_OFFLINE_MARGIN = 1.5  # a run with too few samples ends early and is INVALID; with too many it only takes longer
_LONG_OFFLINE_MARGIN = 1.1  # on top of LoadGen's own tenth: half of ten minutes would be long
_LONG_MS = 60_000
_GUESSED_MOST_QPS = 1e6  # LoadGen prepares all samples before it starts: a wild guess would fill the memory


def measure(spec: JobSpec, channel: Channel) -> RunOutcome:
    """Carry out one run and return its part of the record. Called in a fresh process.

    Raises:
        MlbenchError: something the user can act on; see the methods of the plugins.
    """
    plugins, spec = Plugins.discover(), take_accuracy_test(spec)
    job, rates = choose_instances(Job.of_spec(spec, plugins), plugins, channel)
    channel.progress("load")
    dataset = job.workload.dataset(job.variant)
    model = job.workload.model(job.variant)
    if isinstance(model.program, BatchProgram):
        model.program.listener = channel.step
    metric = job.workload.metric(job.variant, dataset) if spec.wants_accuracy else None
    by_rules = limits_of(job.workload, dataset, job.scenario, job.tier, job.variant.profile)
    limits = audited_limits(with_own_limits(fit_to(by_rules, dataset, model), job.load), job)
    facts, metering = PluginFacts(), Metering.from_request(spec.power, plugins)
    others = OtherWork(metering)
    kept = KeptBatch.find(job, model, plugins)
    job = kept.apply(job, plugins)
    channel.progress("compile")
    with exports_ahead(job, channel), open_engine(job, model, dataset) as ready:
        channel.progress(WARM_UP)
        tests = _Tests(job, model, dataset, limits, channel, ready)
        with kept.forget_on_failure():
            pace = tests.warm_up(has_metric=metric is not None)
        traffic: dict[Mode, Traffic] = {}
        if metric and not spec.accuracy_of:
            traffic[Mode.ACCURACY], pace = tests.drive_accuracy(pace)
        metering.watch_idle()
        traffic[Mode.PERFORMANCE], load, ordered = tests.drive_performance(pace, others)
        channel.progress("statistics")
        counts = kept.note(facts.statistics(ready.engine.statistics))
        calls = facts.answer("work", lambda: _calls_of(ready.engine), otherwise=list[GraphCalls]())
        if rates:
            assert job.plan.instances != "auto"
            counts = dataclasses.replace(counts, instances=job.plan.instances, instance_sweep_samples_per_s=rates)
        runtime, reached = facts.runtime(ready.runtime), ready.reached()
        peak_bytes = facts.answer("peak_memory", ready.peak_memory_bytes, otherwise=None)
        length_across_passes = ordered.influence_of_length(tests.prompt_lengths) if ordered else None
        channel.progress("spot check")
        spots = spot_check(ready, job, model, dataset, load, traffic[Mode.PERFORMANCE])
        channel.progress("overhead")
        overhead = (
            Overhead(reason="a search needs no more than the speed")
            if spec.is_probe
            else measure_overhead(job, model, limits, ready, pace=pace, channel=channel)
        )
        channel.progress("close the engine")
    channel.progress("operations")
    uncounted = facts.answer("work", lambda: count_operations(calls, job, model, channel), otherwise="")
    channel.progress("score")
    detail = read_detail(job.folder / Mode.PERFORMANCE / DETAIL)
    issued = traffic[Mode.PERFORMANCE].issued
    tokens = tokens_of(detail, job.scenario, rules_of(job.workload).token_key_of(job.scenario))
    work = facts.section(
        "work",
        lambda: (
            None
            if uncounted or "work" in facts.missing
            else work_of(calls, model, job, counts, samples=issued, samples_per_s=samples_per_s(detail, job.scenario))
        ),
        lambda: uncounted,
    )
    energy = facts.section("energy", lambda: metering.record(samples=issued, tokens=tokens), lambda: metering.reason)
    judgement = judge_run(
        job,
        limits,
        detail,
        traffic,
        metric,
        model=model,
        spots=spots,
        statistics=counts,
        length_across_passes=length_across_passes,
    )
    outcome = {
        "engine": counts,
        "runtime": runtime,
        "result": judgement.result,
        "accuracy": judgement.accuracy,
        "verdict": judgement.verdict,
        "loadgen_version": judgement.loadgen_version,
        "work": work,
        "energy": energy,
        "other_work": facts.section(
            "other_work",
            lambda: others.record(is_elsewhere=bool(reached) or runtime.devices == UNKNOWN),
            lambda: others.reason,
        ),
        "load": facts.entries("load", lambda: dataclasses.asdict(load)),
        "limits": facts.entries("limits", lambda: dataclasses.asdict(limits)),
        "not_measured": {**facts.missing, **({"overhead": overhead.reason} if overhead.reason else {})},
        "seeds": dataclasses.asdict(limits.seeds),
        "overhead_ns_per_sample": overhead.ns_per_sample,
        "peak_memory_bytes": peak_bytes,
        "fingerprints": {
            "data": dataset.fingerprint,
            "weights": model.weights_fingerprint,
            **{f"graph {name}": graph.fingerprint for name, graph in model.graphs.items()},
        },
        "samples": {"dataset": dataset.count, "issued": issued},
        "lateness": traffic[Mode.PERFORMANCE].late,
        **reached,
    }
    return RunOutcome.of_values(outcome)


def _calls_of(engine: Engine) -> list[GraphCalls]:
    """Return the graph calls that an engine counted.

    Raises:
        TypeError: it returned something else.
    """
    calls = list(engine.calls())
    for each in calls:
        if not isinstance(each, GraphCalls):
            raise TypeError(f"Engine.calls returned a {type(each).__name__}, not GraphCalls")
    return calls


def _steady_speed(engine: Engine) -> float:
    """Return the samples per second of a test of a language model without its tail; 0 where the engine does not say."""
    try:
        counted = engine.statistics()
    except Exception:  # a plugin's code
        logger.exception("the engine's statistics are not available")
        return 0.0
    return (isinstance(counted, GenerationStatistics) and counted.steady_samples_per_s) or 0.0


def _reset_counts(engine: Engine) -> None:
    """Reset an engine's statistics: those so far are not of the measured part."""
    for question in (engine.statistics, engine.calls):
        try:
            question()
        except Exception:  # a plugin's code; if needed, the reason goes into the record
            logger.exception("the engine's statistics are not available")


def _fill_load(load: LoadSettings, limits: RunLimits, pace: SpeedEstimate, *, seen_qps: float = 0.0) -> LoadSettings:
    """Return the settings with every 0 replaced: by the tier's value, or by an estimate from the speed.

    ``seen_qps`` is the rate that LoadGen saw in a test that was too short.
    """
    share = _USUAL_SHARE if load.server_load == "auto" else load.server_load
    served_per_s = share * pace.sustained_per_s
    min_duration_ms = _min_duration_ms(load, limits)
    margin = _LONG_OFFLINE_MARGIN if min_duration_ms >= _LONG_MS else _OFFLINE_MARGIN
    offered_per_s = min(margin * pace.rate_per_s, max(_GUESSED_MOST_QPS, margin * seen_qps))
    is_offline = limits.offline_min_samples is not None
    expected_ns = pace.fastest_ns
    if not limits.equal_issue:  # for that LoadGen sends all queries that it prepared
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


def _min_duration_ms(load: LoadSettings, limits: RunLimits) -> int:
    return load.min_duration_ms or limits.min_duration_ms


def _with_observed_speed(pace: SpeedEstimate, detail: DetailLog, scenario: Scenario) -> SpeedEstimate:
    """Return the speed that a test showed, if that is faster; in Server the rate was chosen, and shows nothing."""
    rate_per_s = samples_per_s(detail, scenario)
    if scenario.sends_rate or not rate_per_s:
        return pace
    query_ns = round(detail.values["generated_samples_per_query"] * 1e9 / rate_per_s)
    return dataclasses.replace(
        pace, rate_per_s=max(pace.rate_per_s, rate_per_s), fastest_ns=min(pace.fastest_ns, query_ns)
    )


@dataclass(frozen=True, slots=True)
class _Tests:
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
        if self.job.scenario.sends_all_at_once and _min_duration_ms(self.job.load, self.limits) >= _LONG_MS:
            pace = time_longer(self.ready, self.job, pace)  # a test with too few samples is made again
        return pace

    def drive_accuracy(self, pace: SpeedEstimate) -> tuple[Traffic, SpeedEstimate]:
        """Send every sample once, and refine the speed estimate."""
        load = _fill_load(self.job.load, self.limits, pace)
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
        so does a short test whose first query was slow. In Server the rate that a probe held may be too high for the
        whole test. What the user gave is kept. A test with invalid replies is never repeated: the next one might hide
        them.
        """
        search = RateBracket(self.job, self.model, self.limits, self.ready, self.channel)
        load = _fill_load(self.job.load, self.limits, pace)
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
        return traffic, load, ordered

    def _with_more_samples(
        self, load: LoadSettings, pace: SpeedEstimate, tests: int
    ) -> tuple[LoadSettings | None, SpeedEstimate]:
        """Return what to test next where LoadGen ran out of samples, None where it did not, and the speed seen."""
        folder = self.job.folder / Mode.PERFORMANCE
        detail = read_detail(folder / DETAIL)
        pace = _with_observed_speed(pace, detail, self.job.scenario)
        seen_qps = samples_per_s(detail, self.job.scenario) or 0.0
        again = _fill_load(self.job.load, self.limits, pace, seen_qps=seen_qps)
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
