"""The overhead, by LoadGen, over an engine whose graphs cost nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from mlbench import BatchProgram, Engine, EnginePlan, GraphBackend, Model, Probe, Profile, ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.statistics import EngineStatistics
from mlbench.execution.engine_choice import engine_of
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.logs import DetailLog, read_detail
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.measurement import overhead
from mlbench.measurement.overhead import Overhead, measure_overhead
from mlbench.measurement.running_engine import RunningEngine
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import Tier, limits_of
from mlbench.toolkit import StoredSamples

PACE = SpeedEstimate(latency_ns=10**8, fastest_ns=10**8, rate_per_s=10.0)


ROWS = StoredSamples([np.full(3, index, np.float32) for index in range(40)], "rows")


class Sums(BatchProgram):
    reply = ReplySpec(dtype="float32", shape=(1,))
    runs = 0

    def run(self, samples, graphs):
        Sums.runs += 1
        return graphs["sum"]({"x": np.stack(samples)})["y"]


class Summing(GraphBackend):
    """Counts the calls that it computes."""

    name = "summing"

    def __init__(self, spoilt=1.0):
        self.calls, self.spoilt = 0, spoilt

    def probe(self):
        return Probe(is_available=True)

    def compile(self, graph, precision):
        def run(inputs):
            self.calls += 1
            return {"y": self.spoilt * inputs["x"].sum(axis=1, keepdims=True)}

        return run


MODEL = Model(
    name="sums",
    graphs={"sum": SimpleNamespace(name="sum", precision=lambda asked: asked, state=())},
    program=Sums(),
    weights_fingerprint="none",
)


SPEC = SimpleNamespace(network=None)


@pytest.fixture
def measured(tmp_path):
    """Measure the overhead of an engine in a scenario."""

    def measured(engine, scenario):
        workload = SimpleNamespace(name="sums", rules="resnet50", mini_server_latency_ms=None)
        asked = {"scenario": scenario, "load": LoadSettings(), "plan": EnginePlan(), "spec": SPEC}
        job = SimpleNamespace(**asked, folder=tmp_path, workload=workload, rules=official_rules("resnet50"))
        limits = limits_of(job.rules, workload, ROWS, scenario, tier=Tier.SMOKE, profile=Profile.MINI)
        ready = RunningEngine(engine=engine, dataset=ROWS, runtime=dict, peak_memory_bytes=lambda: 0, vary=None)
        channel = SimpleNamespace(progress=lambda stage, **facts: None, stuck=lambda reason: None)
        return measure_overhead(job, MODEL, limits, ready, pace=PACE, channel=channel)

    return measured


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda scenario: scenario.name)
def test_the_cost_is_what_loadgen_saw_of_the_runs_engine_without_its_graphs(measured, scenario, tmp_path, monkeypatch):
    monkeypatch.setattr(overhead, "_KEPT_UP", 0)  # a machine may be too busy for any rate
    backend = Summing()
    Sums.runs = 0
    with engine_of(backend, MODEL, EnginePlan(batching=scenario.settings["execution.batching"], batch=4)) as engine:
        found = measured(engine, scenario)
    values = read_detail(tmp_path / "overhead" / "mlperf_log_detail.txt").values
    expected = (
        round(1e9 / values["result_samples_per_second"])
        if scenario is OFFLINE
        else values["result_50.00_percentile_latency_ns"]
    )
    assert found == Overhead(ns_per_sample=expected)
    assert found.ns_per_sample > 0
    assert backend.calls <= 4, "one for each size of a batch"
    assert Sums.runs > 64, "the program is part of what is measured"


def test_an_engine_without_graphs_is_not_measured_and_says_so(measured):
    class Native(Engine):
        def submit(self, samples, reply):
            raise AssertionError("never asked")

    assert measured(Native(), OFFLINE) == Overhead(reason="the engine has no graphs whose calls could be skipped")


def test_replies_that_are_not_sound_without_graphs_are_no_measurement(measured):
    with engine_of(Summing(spoilt=np.nan), MODEL, EnginePlan(batching="inline")) as engine:
        found = measured(engine, SINGLE_STREAM)
    assert found.ns_per_sample is None
    assert "NaN in the reply" in found.reason


def log_of(values):
    """Return a LoadGen log that holds these values."""
    return DetailLog(values=values, errors=(), warnings=())


class AtOnce(Engine):
    """Answers at once, and says that so many of its 100 calls were computed."""

    computed_calls = 0

    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))

    def replay_graphs(self):
        return ""

    def calls(self):
        return [SimpleNamespace(count=100)]

    def statistics(self):
        return EngineStatistics(computed_calls=self.computed_calls)


def test_calls_that_are_computed_all_the_same_are_no_measurement(measured, monkeypatch):
    monkeypatch.setattr(
        overhead._Trial, "_drive", lambda self, load: log_of({"result_50.00_percentile_latency_ns": 7000})
    )
    engine = AtOnce()
    engine.computed_calls = 30
    assert measured(engine, SINGLE_STREAM).reason == "30.0% of the graph calls had shapes that were not seen before"
    engine.computed_calls = 2
    assert measured(engine, SINGLE_STREAM).ns_per_sample == 7000
    # one computed call holds up all that come after it
    assert measured(engine, SERVER).reason == "2.0% of the graph calls had shapes that were not seen before"
    assert measured(engine, OFFLINE).reason == "2.0% of the graph calls had shapes that were not seen before"


@pytest.mark.parametrize(("rate_per_s", "queries"), [(10_000, 2000), (100, 64), (10, 20), (0.1, 3)])
def test_a_test_lasts_tenths_of_a_second_and_has_enough_queries_as_long_as_that_takes_no_minutes(rate_per_s, queries):
    assert overhead._queries(rate_per_s) == queries


@pytest.mark.parametrize(("equal_issue", "samples"), [(True, 7), (False, 64)])
def test_a_short_test_has_no_more_samples_than_queries_where_each_sample_is_sent_as_often(equal_issue, samples):
    job, limits = SimpleNamespace(scenario=SERVER, load=LoadSettings()), SimpleNamespace(equal_issue=equal_issue)
    trial = overhead._Trial(job, MODEL, limits, ready=None, channel=None)
    assert trial._fit_samples(LoadSettings(performance_sample_count=64, min_query_count=7)) == LoadSettings(
        performance_sample_count=samples, min_query_count=7
    )


def test_an_engine_that_falls_behind_is_asked_less_often_and_its_queue_is_never_the_answer(measured, monkeypatch):
    asked = []

    def behind(self, load):
        asked.append(load.target_qps)
        rate_per_s = min(load.target_qps, 0.06 * asked[0])
        return log_of(
            {
                "result_scheduled_samples_per_sec": load.target_qps,
                "result_completed_samples_per_sec": rate_per_s,
                "result_50.00_percentile_latency_ns": 7000,
            }
        )

    monkeypatch.setattr(overhead._Trial, "_drive", behind)
    assert measured(AtOnce(), SERVER) == Overhead(ns_per_sample=7000)
    assert [round(each / asked[0], 4) for each in asked] == [1, 1, 0.25, 0.0625][: len(asked)]
    assert len(asked) == 4


def test_an_engine_that_never_keeps_up_has_no_measured_overhead(measured, monkeypatch):
    rates = {"result_scheduled_samples_per_sec": 40.0, "result_completed_samples_per_sec": 3.0}
    monkeypatch.setattr(overhead._Trial, "_drive", lambda self, load: log_of(rates))
    assert measured(AtOnce(), SERVER).reason == "even without graphs it answered 3.0 of 40.0 samples/s sent"


@pytest.mark.parametrize(
    ("scenario", "queries"), [(SINGLE_STREAM, 10_000), (MULTI_STREAM, 1250)], ids=["SingleStream", "MultiStream"]
)
def test_however_quick_an_engine_is_ten_thousand_samples_are_enough_and_no_reply_is_kept(
    measured, monkeypatch, scenario, queries
):
    """A query in a microsecond would make 200,000 in the time of the test; one of MultiStream has eight samples."""
    loads = []

    def note(self, load):
        loads.append(load)
        return log_of({f"result_50.00_percentile_{kind}latency_ns": 7000 for kind in ("", "per_query_")})

    quick = SpeedEstimate(latency_ns=1000, fastest_ns=1000, rate_per_s=1e6)
    monkeypatch.setattr(overhead._Trial, "_free_pace", lambda self, indices, size: quick)
    monkeypatch.setattr(overhead._Trial, "_drive", note)
    measured(AtOnce(), scenario)
    assert loads[-1].min_query_count == queries
    assert {load.reply_checks for load in loads} == {0}
