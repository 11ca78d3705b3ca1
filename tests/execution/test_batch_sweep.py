from functools import partial

import pytest

from mlbench.execution import batch_sweep
from mlbench.execution.batch_sweep import choose_batch, mixture, neighbours, run_for


class Clock:
    """A clock that only work moves."""

    now = 0.0

    def __call__(self):
        return self.now


def over_and_over(run, workers=1):
    """Return what runs a batch on workers that are all as fast."""
    return lambda batch, seconds: workers * run_for(partial(run, batch), seconds)


def choice(monkeypatch, seconds_of, largest=64, **more):
    clock = Clock()
    monkeypatch.setattr(batch_sweep.time, "perf_counter", clock)

    def run(batch):
        clock.now += seconds_of(len(batch))

    return choose_batch(over_and_over(run, more.get("workers", 1)), range(100), largest, **more)


def swept(monkeypatch, seconds_of, largest=64, **more):
    found = choice(monkeypatch, seconds_of, largest, **more)
    return found.batch, found.rates


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


def test_no_batch_outlasts_a_limit_but_the_smallest(monkeypatch):
    calls = []

    def run_s(size):
        calls.append(size)
        return 0.01 + 0.001 * size

    batch, rates = swept(monkeypatch, run_s, longest_s=0.03)
    assert (batch, max(rates)) == (16, 16)
    assert calls.count(32) == 3, "the first call, and two tries"
    assert swept(monkeypatch, run_s, longest_s=0.001)[0] == 1


def test_a_batch_that_outlasts_a_limit_once_was_held_up(monkeypatch):
    slow = iter([0.01, 0.5])  # the first call, then a try
    assert swept(monkeypatch, lambda size: next(slow, 0.01) if size == 2 else 0.01, longest_s=0.1)[0] == 64


def test_slow_batches_are_tried_twice_and_fast_ones_more_often(monkeypatch):
    """A first call, then tries: three or more of a tenth of a second each; of four tenths the first call is one."""
    calls = []

    def seconds(size):
        calls.append(size)
        return 0.1 if size == 1 else 0.4

    choice(monkeypatch, seconds, largest=2)
    in_turns = calls.index(2)
    assert calls[:in_turns] == [1, 1, 1, 1]
    assert calls[in_turns : in_turns + 2] == [2, 2]
    assert calls[in_turns + 2 : in_turns + 3] in ([], [1])


def test_a_first_call_that_took_long_to_allocate_does_not_hide_how_fast_the_next_ones_are(monkeypatch):
    first, calls = iter([1.0]), []

    def seconds(size):
        calls.append(size)
        return next(first, 0.1) if size == 4 else 0.1

    batch, rates = swept(monkeypatch, seconds, largest=4)
    assert (batch, rates[4]) == (4, pytest.approx(40))
    assert calls.count(4) >= 4, "the first call, and three tries or more"


def test_the_clock_of_the_sweep_is_real():
    assert choose_batch(over_and_over(lambda batch: sum(range(50_000))), range(10), 4).batch == 4


def test_rates_are_those_of_all_workers(monkeypatch):
    assert choice(monkeypatch, lambda size: 0.01 * size, workers=3).rates[1] == pytest.approx(300)


def test_a_try_of_a_short_batch_is_many_calls(monkeypatch):
    calls = []

    def seconds(size):
        calls.append(size)
        return 0.001 * size

    assert swept(monkeypatch, seconds, largest=1) == (1, {1: pytest.approx(1000)})
    assert len(calls) > 100, "the first call, then tries of ten each"


@pytest.mark.parametrize(("least_s", "calls"), [(0, 1), (0.25, 2), (0.3, 3)])
def test_a_batch_runs_for_a_time_and_once_at_least(monkeypatch, least_s, calls):
    clock, ran = Clock(), []
    monkeypatch.setattr(batch_sweep.time, "perf_counter", clock)

    def run():
        clock.now += 0.125
        ran.append(clock.now)

    assert run_for(run, least_s) == pytest.approx(8)
    assert len(ran) == calls


def test_time_in_which_others_had_the_processor_counts_only_where_cores_are_shared(monkeypatch):
    clock, waits, ran = Clock(), Clock(), Clock()
    monkeypatch.setattr(batch_sweep.time, "thread_time", ran)
    monkeypatch.setattr(batch_sweep.time, "perf_counter", clock)
    monkeypatch.setattr(batch_sweep, "thread_waited_ns", waits)

    def run():
        clock.now += 0.125
        waits.now += waited_ns
        ran.now += 0.0625

    waited_ns = 25_000_000
    assert run_for(run, 1, owns_core=True) == pytest.approx(10)
    assert run_for(run, 1) == pytest.approx(8)
    waited_ns = 100_000_000
    assert run_for(run, 1, owns_core=True) == pytest.approx(16), "no faster than it ran"


def test_a_wait_between_the_last_batch_and_the_reading_of_waits_makes_no_batch_faster(monkeypatch):
    clock, readings = Clock(), iter([0.0, 0.5])
    monkeypatch.setattr(batch_sweep.time, "perf_counter", clock)

    def wait_and_read():
        waited_s = next(readings)
        clock.now += waited_s
        return waited_s * 1e9

    monkeypatch.setattr(batch_sweep, "thread_waited_ns", wait_and_read)

    def run():
        clock.now += 1.0

    assert run_for(run, 1, owns_core=True) == pytest.approx(1)


def busy_between(begin_s, end_s, seconds_of):
    """Return a law of calls that are three times as slow while something else runs."""
    now = 0.0

    def seconds(size):
        nonlocal now
        took_s = seconds_of(size) * (3 if begin_s <= now < end_s else 1)
        now += took_s
        return took_s

    return seconds


@pytest.mark.parametrize("begin_s", [0.0, 0.4, 0.9, 1.5, 2.2])
def test_a_busy_moment_does_not_change_the_choice(monkeypatch, begin_s):
    """Two thirds of a second: long enough to hide a size's speed from all of its first tries."""

    def seconds_of(size):
        return 0.002 + 0.001 * size if size <= 16 else 0.00125 * size

    undisturbed = choice(monkeypatch, seconds_of).batch
    assert undisturbed == 16
    assert choice(monkeypatch, busy_between(begin_s, begin_s + 0.66, seconds_of)).batch == undisturbed


def test_a_clear_choice_is_sure_and_one_between_equals_says_so(monkeypatch):
    assert choice(monkeypatch, lambda size: 0.01 * size if size > 4 else 0.01).rounds == {4: 1}
    flicker = iter(range(10**6))
    found = choice(monkeypatch, lambda size: 0.01 * size * (1 + 0.05 * (next(flicker) % 7 / 7)))
    assert sum(found.rounds.values()) >= 3


def test_sizes_that_stay_equal_end_the_sweep_after_some_rounds(monkeypatch):
    calls = iter(range(10**6))
    found = choice(monkeypatch, lambda size: 0.001 * size * (1 + next(calls) * 37 % 101 / 400))
    assert sum(found.rounds.values()) <= 9


def test_a_batch_of_a_run_that_sorts_is_of_one_length_and_one_of_others_has_all_lengths():
    lengths = [10] * 30 + [20] * 40 + [90] * 30
    assert set(neighbours(lengths, 8)) == {20}
    assert mixture(lengths, 8) == [10, 10, 20, 20, 20, 20, 90, 90]
    assert mixture(lengths, 1) == [20]
    assert mixture([10, 90], 4) == [10, 10, 90, 90]


@pytest.mark.parametrize(("cut", "batch"), [(neighbours, 64), (mixture, 4)])
def test_the_sweep_measures_batches_of_the_kind_that_the_run_makes(monkeypatch, cut, batch):
    """Every sample costs what the longest of its batch costs, and a call a little: only alike ones gain by company."""
    clock = Clock()
    monkeypatch.setattr(batch_sweep.time, "perf_counter", clock)

    def run(lengths):
        clock.now += 0.001 + 0.0005 * max(lengths) * len(lengths)

    assert choose_batch(over_and_over(run), [1] * 90 + [20] * 10, 64, cut=cut).batch == batch
