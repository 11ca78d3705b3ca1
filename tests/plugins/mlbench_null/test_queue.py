"""The null backend's queue: one sample after another, at a known speed."""

import statistics

import numpy as np
from mlbench_null.queue import Queue

from mlbench import Samples

MS = 1_000_000


class Zero:
    """A script that answers at once."""

    def acts(self, samples):
        yield 0, samples, self.give

    def give(self, samples, reply):
        raise AssertionError("only times are looked at")


def due_ms(queue, count):
    """Return when each of some samples that arrive together is answered."""
    samples = Samples(list(range(count)), list(range(count)), None)
    return [after_ns / MS for after_ns, _, _ in queue.acts(samples)]


def test_samples_wait_for_those_before_them():
    times = due_ms(Queue(Zero(), mean_ns=1000 * MS, spread=0, wobble=0), 3)
    assert np.allclose(times, [1000, 2000, 3000])


def test_a_query_waits_for_the_one_before_it():
    queue = Queue(Zero(), mean_ns=1000 * MS, spread=0, wobble=0)
    due_ms(queue, 2)
    (later,) = due_ms(queue, 1)
    assert 2000 < later <= 3000


def test_the_times_have_the_mean_that_was_asked_for_and_differ():
    times = np.diff(due_ms(Queue(Zero(), mean_ns=MS, spread=0.3, wobble=0), 20_000))
    assert abs(times.mean() - 1) < 0.02
    assert 0.25 < np.log(times).std() < 0.35


def test_the_speed_wobbles_from_run_to_run_and_not_within_one():
    runs = [np.diff(due_ms(Queue(Zero(), mean_ns=1000 * MS, spread=0, wobble=0.1), 4)) for _ in range(100)]
    assert all(run.std() < 0.001 * run.mean() for run in runs)
    assert 0.05 < statistics.stdev(run.mean() / 1000 for run in runs) < 0.2
