import pytest

from mlbench.execution import batch_sweep
from mlbench.execution.batch_sweep import best_batch


class Clock:
    """A clock that only work moves."""

    now = 0.0

    def __call__(self):
        return self.now


def swept(monkeypatch, seconds_of, largest=64):
    clock = Clock()
    monkeypatch.setattr(batch_sweep.time, "perf_counter", clock)

    def run(batch):
        clock.now += seconds_of(len(batch))

    return best_batch(run, range(100), largest)


def test_where_calls_cost_the_same_whatever_their_size_the_largest_batch_wins(monkeypatch):
    batch, rates = swept(monkeypatch, lambda size: 0.01)
    assert batch == 64
    assert rates[64] == pytest.approx(6400)


def test_where_samples_cost_the_same_in_any_company_the_smallest_batch_wins(monkeypatch):
    assert swept(monkeypatch, lambda size: 0.01 * size)[0] == 1


def test_the_sweep_stops_when_bigger_is_clearly_worse(monkeypatch):
    batch, rates = swept(monkeypatch, lambda size: 0.01 if size <= 4 else 0.01 * size)
    assert batch == 4
    assert max(rates) == 16


def test_one_slow_size_does_not_stop_the_sweep(monkeypatch):
    assert swept(monkeypatch, lambda size: 1.0 if size == 2 else 0.01)[0] == 64


def test_the_sweep_stops_at_batches_that_outlast_a_second(monkeypatch):
    assert max(swept(monkeypatch, lambda size: 2.0)[1]) == 1


def test_the_clock_of_the_sweep_is_real():
    assert best_batch(lambda batch: sum(range(50_000)), range(10), 4)[0] == 4
