"""The pace of engines whose answers take as long as a clock says that only they move."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from mlbench import Engine, InvalidRunError, Samples
from mlbench.execution import speed_estimate
from mlbench.execution.speed_estimate import measure_longer, measure_single_queries, measure_speed


class Clock:
    """A clock that only work moves."""

    now_s = 0.0

    def monotonic(self):
        return self.now_s

    def perf_counter_ns(self):
        return round(self.now_s * 1e9)


class Timed(Engine):
    """Takes so many seconds for a query, whatever its size, one after another of those given, and remembers them."""

    def __init__(self, clock, *seconds):
        self.clock = clock
        self.seconds = itertools.cycle(seconds)
        self.queries = []

    def submit(self, samples, reply):
        self.queries.append(list(samples.indices))
        self.clock.now_s += next(self.seconds)
        reply.complete(samples, np.zeros((len(samples), 1)))


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(speed_estimate, "time", clock)
    return clock


def samples(count):
    return Samples(list(range(count)), list(range(count)), SimpleNamespace())


def test_a_fast_engine_is_timed_often_and_its_rate_is_that_of_many_samples_together(clock):
    engine = Timed(clock, 0.01)
    found = measure_speed(engine, samples(64), 1, timeout_s=1)
    assert found.latency_ns == found.fastest_ns == 10_000_000
    assert [len(query) for query in engine.queries] == [1] * 30 + [100]
    assert found.rate_per_s == pytest.approx(100 / 0.01)


class Starting(Engine):
    """Takes ten milliseconds to get going, and a tenth of one for each sample: 10,000/s in the long run."""

    def __init__(self, clock):
        self.clock = clock

    def submit(self, samples, reply):
        self.clock.now_s += 0.01 + 0.0001 * len(samples)
        reply.complete(samples, np.zeros((len(samples), 1)))


def test_before_a_long_test_many_samples_are_timed_for_as_long_as_is_asked(clock):
    short = measure_speed(Starting(clock), samples(8), 1, timeout_s=1)
    assert short.rate_per_s == pytest.approx(64 / 0.0164)
    began_s = clock.now_s
    long = measure_longer(short, Starting(clock), samples(8), 60, seconds=2.0)
    assert long.rate_per_s == pytest.approx(10_000, rel=0.02)
    assert clock.now_s - began_s < 2


def test_many_samples_that_took_long_enough_are_not_timed_again(clock):
    engine = Timed(clock, *[0.01] * 30, 1.5)
    pace = measure_speed(engine, samples(64), 1, timeout_s=1)
    assert measure_longer(pace, engine, samples(64), 60, seconds=2.0) is pace
    assert len(engine.queries) == 31


def test_many_that_took_a_moment_are_timed_again_however_few_they_were(clock):
    engine = Timed(clock, 0.125)
    pace = measure_speed(engine, samples(64), 1, timeout_s=1)
    assert len(engine.queries[-1]) == 8
    assert measure_longer(pace, engine, samples(64), 60, seconds=2.0).rate_per_s == pytest.approx(128 / 0.125)


def test_many_are_timed_for_a_quarter_of_the_time_after_which_an_engine_hangs(clock):
    pace = measure_speed(Starting(clock), samples(8), 1, timeout_s=1)
    began_s = clock.now_s
    measure_longer(pace, Starting(clock), samples(8), 1, seconds=2.0)
    assert clock.now_s - began_s < 0.25


def test_of_queries_that_take_differently_long_the_least_and_the_median_are_kept(clock):
    found = measure_speed(Timed(clock, 0.6, 0.1, 0.2, 0.3, 0.4), samples(8), 1, timeout_s=1)
    assert found.fastest_ns == pytest.approx(100_000_000)
    assert found.latency_ns == pytest.approx(300_000_000)  # of 0.6, 0.1, 0.2 and 0.3


def test_queries_of_a_second_are_timed_three_times(clock):
    engine = Timed(clock, 1.5)
    assert measure_speed(engine, samples(8), 1, timeout_s=1).rate_per_s == pytest.approx(1 / 1.5)
    assert engine.queries == [[0], [1], [2]]


def test_a_query_that_takes_minutes_is_timed_once(clock):
    engine = Timed(clock, 600)
    found = measure_speed(engine, samples(43), 1, timeout_s=1)
    assert engine.queries == [[0]]
    assert found.latency_ns == 600_000_000_000
    assert found.rate_per_s == pytest.approx(1 / 600)


def test_queries_of_several_samples_go_round_the_samples(clock):
    engine = Timed(clock, 4)
    assert measure_speed(engine, samples(5), 2, timeout_s=1).rate_per_s == pytest.approx(2 / 4)
    assert engine.queries == [[0, 1], [2, 3], [4, 0]]


def test_a_sample_that_fails_is_named(clock):
    class Failing(Timed):
        def submit(self, samples, reply):
            reply.fail(samples, "no memory")

    with pytest.raises(InvalidRunError, match="sample 0: no memory"):
        measure_speed(Failing(clock, 1), samples(3), 1, timeout_s=1)


def test_a_smaller_budget_bounds_both_parts(clock):
    """A quarter of a second: 25 queries of 10 ms, then the 25 together that took as long."""
    engine = Timed(clock, 0.01)
    measure_speed(engine, samples(64), 1, timeout_s=1, budget_s=0.25)
    assert [len(query) for query in engine.queries] == [1] * 25 + [25]


def test_without_a_crowd_single_queries_alone_are_timed(clock):
    engine = Timed(clock, 0.1)
    found = measure_single_queries(engine, samples(64), 2, timeout_s=1)
    assert {len(query) for query in engine.queries} == {2}
    assert found.rate_per_s == pytest.approx(2 / 0.1)
