"""What a run sends where nobody said how much."""

from types import SimpleNamespace

import numpy as np
import pytest

from mlbench import Dataset, Engine
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution import speed_estimate
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.scenarios import OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode
from mlbench.measurement import measure
from mlbench.measurement.running_engine import RunningEngine, repeat_slow_trial
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import official_limits

RULES = official_rules("resnet50")


def chosen(scenario, pace, **load):
    return measure._fill_load(LoadSettings(**load), official_limits(RULES, scenario), pace)


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
    assert measure._fill_load(LoadSettings(), limits, pace_of()).expected_latency_ns == expected_ns


def test_no_query_is_expected_to_take_less_than_loadgen_itself_does():
    """LoadGen prepares each query in a microsecond: for 0.1 us each, two seconds of a test would take 40 to prepare."""
    assert chosen(SINGLE_STREAM, pace_of(fastest_ns=400)).expected_latency_ns == 1000


def test_server_sends_the_share_of_the_rate_that_a_crowd_reaches_where_that_is_known():
    assert chosen(SERVER, pace_of(saturated_per_s=1000.0), server_load=0.3).target_qps == pytest.approx(300)


def test_a_rate_that_was_asked_for_stays():
    assert chosen(SERVER, pace_of(), server_load=0.1, target_qps=77.0).target_qps == 77
    assert chosen(OFFLINE, pace_of(), target_qps=77.0).target_qps == 77


def test_offline_expects_more_than_the_rate_that_was_seen():
    assert chosen(OFFLINE, pace_of(), server_load=0.1).target_qps == 1.5 * 400


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


class Numbers(Dataset):
    count, performance_count, fingerprint = 40, 40, "numbers"
    loaded = 0

    def load(self, indices):
        self.loaded += len(indices)

    def unload(self, indices):
        self.loaded -= len(indices)

    def sample(self, index):
        return index


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

    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(measure._Tests, "drive", drive)
    ready = SimpleNamespace(engine=engine, dataset=Numbers())
    job = SimpleNamespace(scenario=SERVER, load=LoadSettings(server_load=0.5))
    limits = official_limits(RULES, SERVER)
    tests = measure._Tests(job, SimpleNamespace(program=None), Numbers(), limits, None, ready)
    _, pace = tests.drive_accuracy(SLOW)
    assert measure._fill_load(job.load, limits, pace).target_qps == pytest.approx(100)
