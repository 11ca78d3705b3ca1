"""What a run sends where nobody said how much."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from measured_parts import Numbers

from mlbench import Engine, GenerationProgram
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.statistics import GenerationStatistics, SteadyCounts
from mlbench.execution import speed_estimate
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode
from mlbench.measurement import loadgen_tests, running_engine
from mlbench.measurement.chosen_load import fill_load
from mlbench.measurement.loadgen_tests import LoadGenTests
from mlbench.measurement.running_engine import RunningEngine, repeat_slow_trial
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import official_limits

RULES = official_rules("resnet50")


def chosen(scenario, pace, **load):
    return fill_load(LoadSettings(**load), official_limits(RULES, scenario), pace)


def pace_of(**changes):
    return SpeedEstimate(**{"rate_per_s": 400.0, "latency_ns": 5_000_000, "fastest_ns": 4_000_000, **changes})


@pytest.mark.parametrize(("share", "rate_per_s"), [(0.5, 100), (0.25, 50), (1.0, 200), (2.0, 400)])
def test_server_sends_the_share_of_what_one_at_a_time_reaches(share, rate_per_s):
    """5 ms a sample: 200 a second, one at a time."""
    assert chosen(SERVER, pace_of(), server_load=share).target_qps == rate_per_s


@pytest.mark.parametrize(("workload", "expected_ns"), [("resnet50", 1_000_000), ("gptj", 4_000_000)])
def test_a_stream_has_queries_to_spare_but_where_loadgen_sends_all_of_them(workload, expected_ns):
    """The fastest query took 4 ms. For equal issue, as of GPT-J, LoadGen sends all the queries that it prepared."""
    limits = official_limits(official_rules(workload), SINGLE_STREAM)
    assert fill_load(LoadSettings(), limits, pace_of()).expected_latency_ns == expected_ns


def test_a_stream_of_an_engine_that_computes_nothing_is_as_long_as_loadgen_makes_it():
    """For 1.8 us each, LoadGen would send 1.1 million queries in a smoke run of GPT-J on `null`: 18 s, not 2."""
    limits = official_limits(official_rules("gptj"), SINGLE_STREAM)
    assert fill_load(LoadSettings(), limits, pace_of(fastest_ns=1800)).expected_latency_ns == 10_000
    after_a_short_test = fill_load(LoadSettings(), limits, pace_of(fastest_ns=1800), seen_qps=125_000)
    assert after_a_short_test.expected_latency_ns == 1800


@pytest.mark.parametrize(("fastest_ns", "expected_ns"), [(340_000, 300_000), (200_000, 200_000)])
def test_a_fast_stream_of_ten_minutes_has_fewer_to_spare(fastest_ns, expected_ns):
    """LoadGen prepares what 1,200 s would take: four million queries are 1.3 GB; at 85 us it would be 14 million."""
    assert chosen(SINGLE_STREAM, pace_of(fastest_ns=fastest_ns)).expected_latency_ns == expected_ns


def test_no_query_is_expected_to_take_less_than_loadgen_itself_does():
    """LoadGen prepares each query in a microsecond: for 0.1 us each, two seconds of a test would take 40 to prepare."""
    assert chosen(SINGLE_STREAM, pace_of(fastest_ns=400)).expected_latency_ns == 1000


@pytest.mark.parametrize(
    ("duration_ms", "seen_qps", "expected_ns"), [(2000, 0, 4.8e6), (60_000, 0, 2e6), (2000, 9, 2e6)]
)
def test_a_short_test_that_sends_each_sample_as_often_is_planned_by_the_usual_query(duration_ms, seen_qps, expected_ns):
    """LoadGen sends all that it prepared: by the fastest query, a test would last three times as long."""
    limits = replace(official_limits(RULES, SINGLE_STREAM), equal_issue=True)
    pace = pace_of(latency_ns=6_000_000, fastest_ns=2_000_000)
    load = fill_load(LoadSettings(min_duration_ms=duration_ms), limits, pace, seen_qps=seen_qps)
    assert load.expected_latency_ns == expected_ns


def test_server_sends_the_share_of_the_rate_that_a_crowd_reaches_where_that_is_known():
    assert chosen(SERVER, pace_of(saturated_per_s=1000.0), server_load=0.3).target_qps == pytest.approx(300)


def test_a_rate_that_was_asked_for_stays():
    assert chosen(SERVER, pace_of(), server_load=0.1, target_qps=77.0).target_qps == 77
    assert chosen(OFFLINE, pace_of(), target_qps=77.0).target_qps == 77


@pytest.mark.parametrize(("duration_ms", "margin"), [(2000, 1.2), (59_999, 1.2), (60_000, 1.1), (600_000, 1.1)])
def test_offline_expects_more_than_the_rate_that_was_seen_and_less_so_in_a_long_test(duration_ms, margin):
    chosen_qps = chosen(OFFLINE, pace_of(), server_load=0.1, min_duration_ms=duration_ms).target_qps
    assert chosen_qps == pytest.approx(margin * 400)


@pytest.mark.parametrize(("duration_ms", "margin"), [(2000, 1.05), (60_000, 1.1)])
def test_offline_expects_hardly_more_in_a_short_test_where_the_rate_was_seen_to_stay(duration_ms, margin):
    chosen_qps = chosen(OFFLINE, pace_of(is_plateau=True), min_duration_ms=duration_ms).target_qps
    assert chosen_qps == pytest.approx(margin * 400)


def test_offline_sends_the_samples_that_the_rules_want():
    """v4.1: 24,576 samples; a scenario of many queries counts those."""
    assert chosen(OFFLINE, pace_of()).min_query_count == 24_576
    assert chosen(OFFLINE, pace_of(), min_query_count=7).min_query_count == 7
    assert chosen(SERVER, pace_of()).min_query_count == official_limits(RULES, SERVER).min_query_count


class Clock:
    """A clock that only an engine moves."""

    now_s = 0.0

    def monotonic(self):
        return self.now_s

    def perf_counter(self):
        return self.now_s

    def perf_counter_ns(self):
        return round(self.now_s * 1e9)


class Steady(Engine):
    """Takes as long for each sample, one after another, as it is told."""

    failure = ""

    def __init__(self, clock, sample_s):
        self.clock, self.sample_s, self.asked = clock, sample_s, 0

    def submit(self, samples, reply):
        self.asked += len(samples)
        self.clock.now_s += len(samples) * self.sample_s
        if self.failure:
            reply.fail(samples, self.failure)
        else:
            reply.complete(samples, np.zeros((len(samples), 1)))


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(speed_estimate, "time", clock)
    return clock


@pytest.fixture
def engine(clock):
    """An engine that takes 5 ms for a sample."""
    return Steady(clock, 0.005)


def repeated(engine, pace, *, seen_per_s, scenario=SERVER, **load):
    ready = RunningEngine(
        engine=engine,
        dataset=Numbers(),
        vary=lambda variations: Numbers(),
        runtime=dict,
        peak_memory_bytes=lambda: 0,
    )
    job = SimpleNamespace(scenario=scenario, load=LoadSettings(**{"server_load": 0.5} | load))
    found = repeat_slow_trial(ready, job, SimpleNamespace(program=None), pace, seen_per_s=seen_per_s)
    assert ready.dataset.loaded == 0
    return found


SLOW = pace_of(latency_ns=75_000_000, fastest_ns=70_000_000, rate_per_s=13.0)
"""What a machine that was fifteen times as busy said of the engine that takes 5 ms."""


def test_a_trial_that_a_test_shows_to_have_been_slow_is_repeated_and_the_rate_is_one_that_the_engine_holds(engine):
    found = repeated(engine, SLOW, seen_per_s=150)
    assert chosen(SERVER, SLOW).target_qps == pytest.approx(0.5 * 1000 / 75)
    assert chosen(SERVER, found).target_qps == pytest.approx(0.5 * 1000 / 5)


def test_a_trial_in_a_moment_that_is_busy_again_changes_nothing_for_the_worse(clock):
    assert repeated(Steady(clock, 0.5), SLOW, seen_per_s=150) == SLOW


@pytest.mark.parametrize(
    ("pace", "seen_per_s", "more"),
    [
        (SLOW, 26, {}),
        (SLOW, 150, {"target_qps": 9.0}),
        (SLOW, 150, {"scenario": OFFLINE}),
        (SLOW, 150, {"server_load": "auto"}),
        (pace_of(saturated_per_s=100.0), 190, {}),
    ],
    ids=[
        "less than twice as fast",
        "a rate of the user's",
        "no rate to choose",
        "a rate that probes find",
        "a crowd that was timed",
    ],
)
def test_no_other_trial_is_repeated(engine, pace, seen_per_s, more):
    assert repeated(engine, pace, seen_per_s=seen_per_s, **more) is pace
    assert engine.asked == 0


def test_a_sample_that_fails_in_a_repeated_trial_is_left_to_the_test(engine):
    engine.failure = "no memory"
    assert repeated(engine, SLOW, seen_per_s=150) is SLOW


def test_the_speed_of_the_accuracy_test_is_what_a_trial_is_compared_with(clock, engine, monkeypatch):
    """40 samples in 0.2 s, after a trial that said 13 in a second."""

    def drive(tests, mode, load, **more):
        assert mode is Mode.ACCURACY
        clock.now_s += 0.2
        return SimpleNamespace(answered=40, faults=[])

    monkeypatch.setattr(loadgen_tests, "time", clock)
    monkeypatch.setattr(LoadGenTests, "drive", drive)
    ready = SimpleNamespace(engine=engine, dataset=Numbers())
    job = SimpleNamespace(scenario=SERVER, load=LoadSettings(server_load=0.5))
    limits = official_limits(RULES, SERVER)
    tests = LoadGenTests(job, SimpleNamespace(program=None), Numbers(), limits, None, ready)
    _, pace = tests.drive_accuracy(SLOW)
    assert fill_load(job.load, limits, pace).target_qps == pytest.approx(100)


class Generating(Steady):
    """Counts as a language model's engine does: ten samples of ten tokens, of which it made half in 10 ms."""

    def statistics(self):
        steady = SteadyCounts(new_tokens=50, busy_ns=10_000_000, whole_ns=40_000_000)
        return GenerationStatistics(samples=10, new_tokens=100, steady=steady)


def test_a_language_models_accuracy_test_sends_its_samples_within_a_second_and_its_speed_is_without_the_tail(
    clock, monkeypatch
):
    """40 samples in 0.2 s are 200 a second; 5 samples in 10 ms are 500."""
    sent = []

    def drive(tests, mode, load, **more):
        sent.append(load.target_qps)
        clock.now_s += 0.2
        return SimpleNamespace(answered=40, faults=[])

    monkeypatch.setattr(loadgen_tests, "time", clock)
    monkeypatch.setattr(LoadGenTests, "drive", drive)
    ready = SimpleNamespace(engine=Generating(clock, 0.005), dataset=Numbers())
    job = SimpleNamespace(scenario=SERVER, load=LoadSettings())
    model = SimpleNamespace(program=Mock(spec=GenerationProgram))
    tests = LoadGenTests(job, model, Numbers(), official_limits(RULES, SERVER), None, ready)
    alone = pace_of(latency_ns=10**9, fastest_ns=10**9, rate_per_s=1.0)
    _, pace = tests.drive_accuracy(alone)
    assert sent == [40]
    assert (pace.rate_per_s, pace.saturated_per_s, pace.is_tested) == (500, 500, True)


@pytest.mark.parametrize(
    ("load", "shown", "crowds"),
    [
        ({}, {}, 1),
        ({}, {"known_per_s": 20.0}, 0),
        ({}, {"is_tested_next": True}, 0),
        ({"server_load": 0.5}, {"is_tested_next": True}, 1),
    ],
    ids=["nothing is known", "an earlier run", "a test that follows", "a share of what the trial measures"],
)
def test_a_language_models_speed_with_many_samples_is_looked_for_where_nothing_else_shows_it(
    engine, monkeypatch, load, shown, crowds
):
    asked = []

    def crowd(pace, *_, **__):
        asked.append(pace)
        return pace

    monkeypatch.setattr(running_engine, "measure_saturated_speed", crowd)
    monkeypatch.setattr(Steady, "warm_up", lambda engine, samples: None, raising=False)
    ready = SimpleNamespace(engine=engine, dataset=Numbers())
    job = SimpleNamespace(scenario=SERVER, load=LoadSettings(**load))
    model = SimpleNamespace(program=Mock(spec=GenerationProgram))
    pace = running_engine.warm_up(ready, job, model, **shown)
    assert len(asked) == crowds
    assert (pace.saturated_per_s, pace.is_tested) == (shown.get("known_per_s"), "known_per_s" in shown)


@pytest.mark.parametrize(
    ("scenario", "load", "shown", "largest"),
    [
        (SINGLE_STREAM, {}, {}, 1),
        (MULTI_STREAM, {}, {}, 8),
        (OFFLINE, {}, {}, 200),
        (OFFLINE, {}, {"is_tested_next": True}, 40),
        (SINGLE_STREAM, {}, {"is_tested_next": True}, 1),
        (SERVER, {}, {"is_tested_next": True}, 200),
        (SERVER, {}, {"known_per_s": 20.0}, 1),
        (SERVER, {"server_load": 0.5}, {"known_per_s": 20.0}, 200),
        (OFFLINE, {}, {"known_per_s": 20.0}, 200),
    ],
)
def test_a_warm_up_has_as_many_samples_at_once_as_come_and_few_before_a_test_of_all(  # noqa: PLR0917 - one per column
    engine, monkeypatch, scenario, load, shown, largest
):
    """5 ms a query: 200 in the second that the crowd of Offline takes, 40 in a fifth of it.

    One at a time comes before Server whose speed an earlier run has shown, unless the rate is a share of a trial's.
    """
    asked = []
    submit = engine.submit

    def count(samples, reply):
        asked.append(len(samples))
        submit(samples, reply)

    monkeypatch.setattr(Steady, "warm_up", lambda engine, samples: None, raising=False)
    monkeypatch.setattr(engine, "submit", count)
    ready = SimpleNamespace(engine=engine, dataset=Numbers())
    job = SimpleNamespace(scenario=scenario, load=LoadSettings(**load))
    running_engine.warm_up(ready, job, SimpleNamespace(program=None), **shown)
    assert max(asked) == largest
