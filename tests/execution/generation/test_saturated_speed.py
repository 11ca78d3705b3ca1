"""The pace of a generation engine, by a clock that only work moves."""

from types import SimpleNamespace

import numpy as np
import pytest

from mlbench import Engine, Samples
from mlbench.execution import speed_estimate
from mlbench.execution.speed_estimate import SpeedEstimate, measure_saturated_speed


class Slots(Engine):
    """Takes a second for as many samples as it has slots, or for fewer."""

    def __init__(self, slots):
        self.slots = slots
        self.now_s = 0.0
        self.queries = []

    def submit(self, samples, reply):
        self.queries.append(len(samples))
        self.now_s += -(-len(samples) // self.slots)
        reply.complete(samples, np.zeros((len(samples), 1)))

    def monotonic(self):
        return self.now_s

    def perf_counter_ns(self):
        return round(self.now_s * 1e9)


def found(slots, count, monkeypatch, **more):
    engine = Slots(slots)
    monkeypatch.setattr(speed_estimate, "time", engine)
    alone = SpeedEstimate(latency_ns=10**9, fastest_ns=10**9, rate_per_s=3.0)
    samples = Samples(list(range(count)), list(range(count)), SimpleNamespace())
    return measure_saturated_speed(alone, engine, samples, timeout_s=1, **more), engine


def test_the_rate_is_that_of_as_many_at_once_as_there_are_slots(monkeypatch):
    pace, engine = found(16, 64, monkeypatch)
    assert pace.saturated_per_s == pace.rate_per_s == 16
    assert engine.queries == [2, 4, 8, 16, 32, 64, 128]


def test_an_engine_without_slots_to_spare_is_not_asked_for_long(monkeypatch):
    pace, engine = found(1, 64, monkeypatch)
    assert pace.saturated_per_s == 1
    assert pace.rate_per_s == 3  # what was found before is not forgotten
    assert engine.queries == [2, 4, 8, 16]


def test_no_more_samples_are_asked_for_than_eight_times_those_there_are(monkeypatch):
    assert max(found(1000, 4, monkeypatch)[1].queries) == 32
    assert found(1000, 4, monkeypatch)[0].saturated_per_s == pytest.approx(32)


def test_few_samples_suffice_where_they_took_long_enough_and_the_rate_stays(monkeypatch):
    """Four at once take a second: 8 take two, at the same rate. One slot's rate never grows, from the first query."""
    pace, engine = found(4, 64, monkeypatch, enough_s=2.0)
    assert engine.queries == [2, 4, 8]
    assert (pace.saturated_per_s, pace.is_plateau) == (4, True)
    assert found(4, 64, monkeypatch, enough_s=3.0)[1].queries == [2, 4, 8, 16]
    assert not found(1000, 4, monkeypatch, enough_s=1.0)[0].is_plateau  # it grew to the end
