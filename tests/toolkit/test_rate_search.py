"""The search for a rate, driven without LoadGen: by made-up answers, and by a queue in virtual time."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from mlbench.rules.early_stopping import misses_allowed
from mlbench.toolkit.rate_search import RateFound, RateGoal, RateNotFound, RateObservation, RateSearch, RateTrial

GOAL = RateGoal(percentile=0.99, full_s=600, full_queries=838, probe_s=60, probe_queries=1000)


def observe(trial, share, *, is_valid=True):
    return RateObservation(
        rate_per_s=trial.rate_per_s,
        is_full=trial.is_full,
        answered=trial.queries,
        late=round(share * trial.queries),
        is_valid=is_valid,
        run_id=f"run-{trial.rate_per_s:g}",
    )


def share_at(rate_per_s):
    """A system that has 1 % late at 750/s and 17 % more for each percent of load."""
    return min(1.0, 0.01 * (rate_per_s / 750) ** 16)


def drive(search, answer):
    """Return the trials of a search, and how it ended."""
    trials = []
    while isinstance(step := search.next_step(), RateTrial):
        trials.append(step)
        search = search.with_observation(answer(step))
    return trials, step


def steady(trial):
    share = share_at(trial.rate_per_s)
    return observe(trial, share, is_valid=share <= trial.end_at_late_share)


def test_two_valid_runs_at_one_rate_end_the_search_a_little_below_the_limit():
    trials, found = drive(RateSearch(goal=GOAL, start_per_s=700), steady)
    assert isinstance(found, RateFound)
    assert [each.rate_per_s for each in found.runs] == [found.rate_per_s] * 2
    assert 0.006 <= share_at(found.rate_per_s) <= 4344 / 450_000
    assert [trial.is_full for trial in trials][-2:] == [True, True]


def test_probes_come_before_full_runs_three_lie_inside_the_bracket_and_four_where_full_runs_would_be():
    trials, _ = drive(RateSearch(goal=GOAL, start_per_s=700), steady)
    kinds = [trial.is_full for trial in trials]
    assert kinds == sorted(kinds)
    probes = [trial.rate_per_s for trial in trials if not trial.is_full]
    first, inside, near = probes[:-7], probes[-7:-4], probes[-4:]
    low, high = max(rate for rate in first if rate <= 750), min(rate for rate in first if rate > 750)
    assert all(low < rate < high for rate in inside)
    assert high / low <= 1.2
    assert near == pytest.approx([trials[-1].rate_per_s] * 4, rel=0.01)


def test_where_runs_differ_more_full_runs_are_made_further_below_the_limit():
    def unsteady(by):
        signs = itertools.cycle([1, -1, -1, 1])
        return lambda trial: observe(trial, share_at(trial.rate_per_s) * by ** next(signs), is_valid=trial.is_full)

    firsts = []
    for by in (1.0, 1.4, 2.0):
        trials, _ = drive(RateSearch(goal=GOAL, start_per_s=700), unsteady(by))
        firsts.append(next(trial.rate_per_s for trial in trials if trial.is_full))
    assert firsts[0] > 1.005 * firsts[1] > 1.01 * firsts[2]


def test_a_probe_is_ended_at_three_times_the_allowance_and_a_full_run_when_it_cannot_pass():
    trials, _ = drive(RateSearch(goal=GOAL, start_per_s=700), steady)
    probe, run = trials[0], trials[-1]
    assert (probe.end_at_late_share, probe.seconds) == (pytest.approx(0.03), 60)
    # 4344 of 450,000 may be late: the rules' early stopping, 1 % less what chance may hide
    assert misses_allowed(450_000, 0.99) == 4344
    assert math.floor(run.end_at_late_share * run.queries) == misses_allowed(run.queries, 0.99)


@pytest.mark.parametrize("start_per_s", [1, 100, 600, 1000, 20_000])
def test_any_guess_leads_to_the_same_rate(start_per_s):
    _, found = drive(RateSearch(goal=GOAL, start_per_s=start_per_s), steady)
    assert 735 <= found.rate_per_s <= 744


def test_an_invalid_run_lowers_the_rate_by_at_least_one_and_a_half_percent():
    def answer(trial):
        if not trial.is_full:
            return steady(trial)
        return observe(trial, 0.012 if trial.rate_per_s > 720 else 0.0058, is_valid=trial.rate_per_s <= 720)

    trials, found = drive(RateSearch(goal=GOAL, start_per_s=700), answer)
    runs = [trial.rate_per_s for trial in trials if trial.is_full]
    assert found.rate_per_s <= 720
    assert all(after <= 0.9851 * before for before, after in itertools.pairwise(runs) if before > 720)


def test_two_valid_runs_with_few_late_queries_raise_the_rate_and_a_failure_above_returns_to_them():
    tried = []

    def answer(trial):
        if not trial.is_full:
            return steady(trial)
        tried.append(trial.rate_per_s)
        is_first = trial.rate_per_s == tried[0]
        return observe(trial, 0.003 if is_first else 0.02, is_valid=is_first)

    short_probes = dataclasses.replace(GOAL, probe_s=2)  # beside full runs they say little
    _, found = drive(RateSearch(goal=short_probes, start_per_s=700), answer)
    first, second, third = tried
    assert first == second == found.rate_per_s
    assert 1.012 * first <= third <= 1.05 * first


def test_two_lucky_runs_alone_do_not_raise_the_rate_when_all_probes_say_otherwise():
    def answer(trial):
        return steady(trial) if not trial.is_full else observe(trial, 0.005)

    trials, found = drive(RateSearch(goal=GOAL, start_per_s=700), answer)
    assert [trial.rate_per_s for trial in trials if trial.is_full] == [found.rate_per_s] * 2


def test_one_valid_run_is_not_enough():
    count = 0

    def answer(trial):
        nonlocal count
        if not trial.is_full:
            return steady(trial)
        count += 1
        return observe(trial, 0.006 if count % 2 else 0.02, is_valid=count % 2 == 1)

    _, ended = drive(RateSearch(goal=GOAL, start_per_s=700), answer)
    assert ended == RateNotFound(reason="of 20 full runs no two were valid at one rate")


def test_a_system_with_an_edge_is_tuned_near_it_where_runs_beyond_it_differ():
    """Late shares of ResNet-50 on a machine with other work, as they were measured: none up to 2,767 a second."""
    beyond = {6327: 0.57, 4745: 0.41, 3559: 0.23, 3082: 0.063, 2973: 0.12, 2868: 0.088}

    def answer(trial):
        return observe(trial, next((late for edge, late in beyond.items() if trial.rate_per_s >= edge), 0.0))

    smoke = RateGoal(percentile=0.99, full_s=2, full_queries=838, probe_s=2, probe_queries=838)
    _, found = drive(RateSearch(goal=smoke, start_per_s=6327), answer)
    assert found.rate_per_s > 0.85 * 2868


def test_no_rate_is_tried_above_an_edge_beyond_which_all_runs_are_far_too_late():
    """Late shares of ResNet-50 on a GPU, as measured: full runs were made at 47,760, where a third was late."""
    beyond = {51820: 0.48, 47760: 0.32, 38860: 0.13, 37490: 0.21, 35500: 0.12}

    def answer(trial):
        late = next((late for edge, late in beyond.items() if trial.rate_per_s >= edge), 0.0)
        return observe(trial, late, is_valid=not late)

    smoke = RateGoal(percentile=0.99, full_s=2, full_queries=838, probe_s=2, probe_queries=838)
    trials, found = drive(RateSearch(goal=smoke, start_per_s=51820, most_per_s=69_000), answer)
    assert 0.95 * 35500 < found.rate_per_s < 35500
    full = [trial.rate_per_s for trial in trials if trial.is_full]
    assert max(full) < 36160
    assert len(full) <= 5


def test_where_full_runs_failed_far_below_each_other_the_middle_is_tried_too():
    """ResNet-50 on a machine that was slower for some seconds, as measured: the search had ended at 3,844."""
    failed = {6745: 0.39, 6006: 0.36, 4805: 0.11}

    def answer(trial):
        if not trial.is_full:
            return observe(trial, 0.35 if trial.rate_per_s > 6700 else 0.0)
        late = next((late for rate_per_s, late in failed.items() if trial.rate_per_s >= rate_per_s), 0.0)
        return observe(trial, late, is_valid=not late)

    smoke = RateGoal(percentile=0.99, full_s=2, full_queries=838, probe_s=2, probe_queries=838)
    trials, found = drive(RateSearch(goal=smoke, start_per_s=6620), answer)
    assert 0.9 * 4805 < found.rate_per_s < 4805
    assert sum(trial.is_full for trial in trials) <= 12


def test_a_system_that_is_never_in_time_has_no_rate():
    _, ended = drive(RateSearch(goal=GOAL, start_per_s=700), lambda trial: observe(trial, 1.0))
    assert isinstance(ended, RateNotFound)
    assert ended.reason.endswith("100.0% of the queries are late")


def test_no_rate_is_tried_beyond_what_the_system_completes():
    def in_time(trial):
        return observe(trial, 0.0)

    trials, found = drive(RateSearch(goal=GOAL, start_per_s=700, most_per_s=1000), in_time)
    assert max(trial.rate_per_s for trial in trials) <= 1000
    assert found.rate_per_s > 980


def test_the_same_observations_give_the_same_step_and_a_search_goes_on_where_it_was():
    search, steps = RateSearch(goal=GOAL, start_per_s=700), []
    while isinstance(step := search.next_step(), RateTrial):
        again = RateSearch(goal=GOAL, start_per_s=700, observations=search.observations)
        assert again.next_step() == step == search.next_step()
        steps.append(step)
        search = search.with_observation(steady(step))
    assert search.proven() == step


def test_a_short_run_aims_lower_since_early_stopping_allows_less():
    short = RateGoal(percentile=0.99, full_s=2, full_queries=838, probe_s=2, probe_queries=838)
    few = dataclasses.replace(short, full_queries=459)  # none may be late, and a share of 0 would end nothing
    trials, _ = drive(RateSearch(goal=few, start_per_s=100), lambda trial: observe(trial, trial.rate_per_s > 120))
    assert math.floor(trials[-1].end_at_late_share * trials[-1].queries) == 0 < trials[-1].end_at_late_share
    # two of 838 may be late; to have so few nearly always, there must be far less than one
    assert short.target_share(100, margin=0.0) < 0.5 / 838
    # of 420,000, by early stopping, 4,200 less what chance may hide; a margin of ln 2 halves them
    assert GOAL.target_share(700, margin=math.log(2)) == pytest.approx(misses_allowed(420_000, 0.99) / 420_000 / 2)


def test_other_percentiles_have_their_own_allowance():
    goal = RateGoal(percentile=0.9, full_s=600, full_queries=1000, probe_s=60, probe_queries=100)
    step = RateSearch(goal=goal, start_per_s=50).next_step()
    assert step.end_at_late_share == pytest.approx(0.3)
    assert 0.045 < goal.target_share(50, margin=math.log(2)) < 0.05


def test_where_samples_are_sent_equally_often_a_full_run_sends_whole_sets():
    goal = RateGoal(percentile=0.99, full_s=60, full_queries=838, probe_s=6, probe_queries=838, multiple=500)
    assert goal.queries(100, is_full=True) == 6000
    assert goal.queries(101, is_full=True) == 6500


class Queue:
    """One server, log-normal service of 1 ms on average; its speed wobbles from run to run."""

    def __init__(self, seed, wobble):
        self.rng, self.wobble = np.random.default_rng(seed), wobble

    def late(self, rate_per_s, queries):
        """Return for each query whether it took longer than 10 ms."""
        service = self.rng.lognormal(-0.045, 0.3, queries) / 1000 / (1 + self.wobble * self.rng.standard_normal())
        arrivals = np.cumsum(self.rng.exponential(1 / rate_per_s, queries))
        served = np.cumsum(service)
        return served + np.maximum.accumulate(arrivals - served + service) - arrivals > 0.010

    def answer(self, trial):
        late = self.late(trial.rate_per_s, trial.queries)
        most = math.floor(trial.end_at_late_share * trial.queries)
        is_ended = late.sum() > most
        answered = int(np.searchsorted(np.cumsum(late), most, side="right")) + 1 if is_ended else trial.queries
        return RateObservation(
            rate_per_s=trial.rate_per_s,
            is_full=trial.is_full,
            answered=answered,
            late=int(late[:answered].sum()),
            is_valid=not is_ended,
        )


@pytest.mark.parametrize("wobble", [0.0, 0.005])
def test_a_tuned_rate_of_a_queue_is_valid_again_and_near_its_peak(wobble):
    """A small part of ``benchmarks/tune_rate.py``, where the queue has 1 % late at 750/s."""
    rates, again = [], []
    for seed in range(3):
        queue = Queue(seed, wobble)
        _, found = drive(RateSearch(goal=GOAL, start_per_s=600), queue.answer)
        rates.append(found.rate_per_s)
        queries = math.ceil(600 * found.rate_per_s)
        again += [queue.late(found.rate_per_s, queries).sum() <= misses_allowed(queries, 0.99) for _ in range(5)]
    assert sum(again) >= 13
    assert all(700 < rate < 755 for rate in rates)
