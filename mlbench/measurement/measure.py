"""One run, inside its own process; it is judged in another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, GraphCalls
from mlbench.contracts.metric import Metric
from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.runtime_facts import UNKNOWN, RuntimeFacts
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.statistics import EngineStatistics
from mlbench.contracts.workload import Memory
from mlbench.discovery import Plugins
from mlbench.execution.processes.channel import Channel
from mlbench.execution.stage_times import WARM_UP
from mlbench.loadgen.drive import Traffic
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail, samples_per_s, tokens_of
from mlbench.loadgen.settings import Mode
from mlbench.measurement.audited import limits_of_job
from mlbench.measurement.evidence import Evidence, MeasuredRun
from mlbench.measurement.exports_ahead import exports_ahead
from mlbench.measurement.instance_sweep import choose_instances
from mlbench.measurement.job import Job, model_fingerprints
from mlbench.measurement.kept_batch import KeptBatch
from mlbench.measurement.loadgen_tests import LoadGenTests
from mlbench.measurement.metering import Metering
from mlbench.measurement.operation_counts import count_operations, work_of
from mlbench.measurement.other_work import OtherWork
from mlbench.measurement.overhead import Overhead, measure_overhead
from mlbench.measurement.perplexity import measure_perplexity
from mlbench.measurement.plugin_facts import PluginFacts
from mlbench.measurement.running_engine import RunningEngine, open_engine
from mlbench.measurement.shared_accuracy import take_accuracy_test
from mlbench.measurement.spot_check import NO_MORE_THAN_SPEED, spot_check
from mlbench.measurement.spot_times import Times
from mlbench.measurement.transfers import transfers_of
from mlbench.records.job_spec import JobSpec
from mlbench.records.node_record import ClusterRecord, NetworkRecord
from mlbench.records.run_outcome import Observed
from mlbench.records.run_record import NumberFormatRecord
from mlbench.records.work_record import EnergyRecord, WorkRecord
from mlbench.rules.facts import SpotCheck
from mlbench.rules.tiers import RunLimits


def measure(spec: JobSpec, channel: Channel) -> MeasuredRun:
    """Carry out one run and return what was seen of it. Called in a fresh process.

    Raises:
        MlbenchError: something the user can act on; see the methods of the plugins.
    """
    plugins, spec = Plugins.discover(), take_accuracy_test(spec)
    job, instance_rates = choose_instances(Job.of_spec(spec, plugins), plugins, channel)
    channel.progress("load")
    run = _Run.load(job, plugins, channel)
    channel.progress("compile")
    with exports_ahead(run.job, channel), open_engine(run.job, run.model, run.dataset) as ready:
        measured = run.measure_on(ready, instance_rates)
        channel.progress("close the engine")
    perplexity = run.perplexity()  # the engine is closed, so that there is room for the model once more
    return MeasuredRun(observed=run.observed(measured), evidence=run.evidence(measured, perplexity))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Facts of a run when its engine closes."""

    traffic: Mapping[Mode, Traffic]
    load: LoadSettings
    """The load of the performance test."""
    statistics: EngineStatistics
    calls: Sequence[GraphCalls]
    runtime: RuntimeFacts
    reached: Mapping[str, NetworkRecord | ClusterRecord]
    """Traffic with nodes."""
    peak_bytes: int | None
    length_across_passes: float | None
    """How strongly length decided what of several passes over the dataset started first; see `OrderedEngine`."""
    spots: tuple[SpotCheck | None, str]
    timed: Times
    overhead: Overhead

    @property
    def performance(self) -> Traffic:
        """Samples sent and answered in the performance test."""
        return self.traffic[Mode.PERFORMANCE]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run whose data and model are loaded."""

    job: Job
    dataset: Dataset
    model: Model
    metric: Metric | None
    """None: no accuracy is asked for."""
    limits: RunLimits
    kept: KeptBatch
    channel: Channel
    facts: PluginFacts
    metering: Metering
    others: OtherWork

    @classmethod
    def load(cls, job: Job, plugins: Plugins, channel: Channel) -> Self:
        """Load what a job names, and choose its batch if one is kept."""
        dataset = job.workload.dataset(job.variant)
        model = job.model()
        if isinstance(model.program, BatchProgram):
            model.program.listener = channel.step
        metric = job.workload.metric(job.variant, dataset) if job.spec.wants_accuracy else None
        limits = limits_of_job(job, dataset, model)
        kept, metering = KeptBatch.find(job, model, plugins), Metering.from_request(job.spec.power, plugins)
        return cls(
            job=kept.apply(job, plugins),
            dataset=dataset,
            model=model,
            metric=metric,
            limits=limits,
            kept=kept,
            channel=channel,
            facts=PluginFacts(),
            metering=metering,
            others=OtherWork(metering),
        )

    def measure_on(self, ready: RunningEngine, instance_rates: Mapping[int, float]) -> _Seen:
        """Test an engine under LoadGen, then ask it what only it knows.

        ``instance_rates`` are those of the numbers of instances that were tried.
        """
        job, model, facts, channel = self.job, self.model, self.facts, self.channel
        channel.progress(WARM_UP)
        tests = LoadGenTests(job, model, self.dataset, self.limits, channel, ready)
        with self.kept.forget_on_failure():
            pace = tests.warm_up(has_metric=self.metric is not None)
        traffic: dict[Mode, Traffic] = {}
        if self.metric and not job.spec.accuracy_of:
            traffic[Mode.ACCURACY], pace = tests.drive_accuracy(pace)
        self.metering.watch_idle()
        traffic[Mode.PERFORMANCE], load, ordered = tests.drive_performance(pace, self.others)
        channel.progress("statistics")
        statistics = self.kept.note(facts.statistics(ready.engine.statistics))
        calls = facts.answer("work", lambda: _calls_of(ready.engine), otherwise=list[GraphCalls]())
        if instance_rates:
            assert job.plan.instances != "auto"
            statistics = dataclasses.replace(
                statistics, instances=job.plan.instances, instance_sweep_samples_per_s=instance_rates
            )
        runtime, reached = facts.runtime(ready.runtime), ready.reached()
        peak_bytes = facts.answer("peak_memory", ready.peak_memory_bytes, otherwise=None)
        length_across_passes = ordered.influence_of_length(tests.prompt_lengths) if ordered else None
        channel.progress("spot check")
        found, unspotted, timed = spot_check(ready, job, model, self.dataset, load, traffic[Mode.PERFORMANCE], channel)
        channel.progress("overhead")
        overhead = (
            Overhead(reason=NO_MORE_THAN_SPEED)
            if job.spec.is_probe
            else measure_overhead(job, model, self.limits, ready, pace=pace, channel=channel)
        )
        return _Seen(
            traffic=traffic,
            load=load,
            statistics=statistics,
            calls=calls,
            runtime=runtime,
            reached=reached,
            peak_bytes=peak_bytes,
            length_across_passes=length_across_passes,
            spots=(found, unspotted),
            timed=timed,
            overhead=overhead,
        )

    def perplexity(self) -> float | None:
        """Return the perplexity of right answers if it is asked for, and accuracy is."""
        metric, note = self.metric, partial(self.channel.progress, "perplexity")
        if not metric or getattr(self.job.variant.options, "perplexity", False) is not True:
            return None
        note()
        return self.facts.answer(
            "perplexity",
            lambda: measure_perplexity(self.job, self.model, self.dataset, metric, note),
            otherwise=None,
        )

    def evidence(self, measured: _Seen, perplexity: float | None) -> Evidence:
        """Return the evidence for a verdict, in addition to the logs."""
        return Evidence(
            faults={str(mode): each.faults for mode, each in measured.traffic.items()},
            issued=measured.performance.issued,
            spots=measured.spots[0],
            unspotted_reason=measured.spots[1],
            timed=measured.timed.answers,
            length_across_passes=measured.length_across_passes,
            makes_accuracy_test=not self.job.spec.accuracy_of,
            perplexity=perplexity,
        )

    def observed(self, measured: _Seen) -> Observed:
        """Count the work, and return all that is stored but the verdict and what it rests on."""
        job, facts = self.job, self.facts
        self.channel.progress("operations")
        uncounted = facts.answer(
            "work", lambda: count_operations(measured.calls, job, self.model, self.channel), otherwise=""
        )
        detail = read_detail(job.folder / Mode.PERFORMANCE / DETAIL)
        work, energy = self._work(measured, detail, uncounted), self._energy(measured, detail)
        issued = measured.performance.issued
        transfers = facts.answer(
            "transfers", lambda: transfers_of(measured.calls, self.model, samples=issued), otherwise=None
        )
        is_elsewhere = bool(measured.reached) or measured.runtime.devices == UNKNOWN
        other_work = facts.section(
            "other_work", lambda: self.others.record(is_elsewhere=is_elsewhere), lambda: self.others.reason
        )
        load = facts.entries("load", lambda: dataclasses.asdict(measured.load))
        limits = facts.entries("limits", lambda: dataclasses.asdict(self.limits))
        uncosted = {"overhead": measured.overhead.reason} if measured.overhead.reason else {}
        return Observed.of_values(
            {
                "lateness": measured.performance.late,
                "overhead_ns_per_sample": measured.overhead.ns_per_sample,
                "other_work": other_work,
                "energy": energy,
                "changes": self.model.changes,
                "number_format": None if is_elsewhere else self._number_format(),
                "memory": str(job.variant.memory),
                "transfers": transfers,
                "work": work,
                "not_measured": {**facts.missing, **uncosted},
                "peak_memory_bytes": measured.peak_bytes,
                "seeds": dataclasses.asdict(self.limits.seeds),
                "samples": {"dataset": self.dataset.count, "issued": measured.performance.issued},
                "load": load,
                "limits": limits,
                "engine": measured.statistics,
                "runtime": measured.runtime,
                "fingerprints": self._fingerprints(),
                **measured.reached,
            }
        )

    def _number_format(self) -> NumberFormatRecord | None:
        """Return the format of quantised files, which the engine read; None where the weights are of the precision."""
        stores = self.model.stores
        return NumberFormatRecord(stores=stores, computes=self.job.plan.precision) if stores else None

    def _work(self, measured: _Seen, detail: DetailLog, uncounted: str) -> WorkRecord | None:
        """Return the work of the performance test; ``uncounted`` says why there is none, where it is not empty."""

        def work() -> WorkRecord | None:
            if uncounted or "work" in self.facts.missing:
                return None
            return work_of(
                measured.calls,
                self.model,
                self.job,
                measured.statistics,
                samples=measured.performance.issued,
                samples_per_s=samples_per_s(detail, self.job.scenario),
            )

        return self.facts.section("work", work, lambda: uncounted)

    def _energy(self, measured: _Seen, detail: DetailLog) -> EnergyRecord | None:
        scenario = self.job.scenario
        tokens = tokens_of(detail, scenario, self.job.rules.token_key_of(scenario))
        return self.facts.section(
            "energy",
            lambda: self.metering.record(samples=measured.performance.issued, tokens=tokens),
            lambda: self.metering.reason,
        )

    def _fingerprints(self) -> Mapping[str, str]:
        """Return the hashes of data and model, in the form for a host: those of another are of the same model."""
        job = dataclasses.replace(self.job, variant=dataclasses.replace(self.job.variant, memory=Memory.HOST))
        return {"data": self.dataset.fingerprint, **model_fingerprints(job)}


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
