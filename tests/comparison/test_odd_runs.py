"""Runs that lie far from the others of their session: they neither hide a loss nor make one up."""

import math

import numpy as np
import pytest

from mlbench.comparison.effect import mean_interval
from mlbench.comparison.spread import usual_mean, without_odd_runs
from mlbench.comparison.tested import compare_by_sessions, compare_pairs
from mlbench.comparison.verdicts import ALPHA, MARGIN, Number, SpeedVerdict, judge_together

NIGHTS = [
    (1000, 1004, 998, 1001, 997),
    (1006, 1002, 1009, 1005, 1003),
    (994, 999, 996, 992, 998),
    (1003, 1000, 1001, 1006, 999),
    (1008, 1004, 1002, 1007, 1010),
    (997, 994, 1000, 996, 999),
    (1001, 1005, 1000, 998, 1002),
    (990, 995, 993, 997, 996),
    (1005, 1008, 1002, 1004, 1001),
    (999, 1003, 1000, 998, 1002),
    (1000, 1002, 1004, 999, 997),
    (1002, 1001, 998, 1003, 1000),
]


def logarithms(*sessions):
    return [[math.log(value) for value in session] for session in sessions]


def against(history, tonight):
    sessions = logarithms(*history)
    tested = compare_by_sessions(sessions[-1:], logarithms(tonight), before=sessions, after=[], margin=MARGIN)
    (decision,) = judge_together([Number(cell=("one",), tested=tested)], MARGIN)
    return decision.verdict, tested


@pytest.mark.parametrize("odd", [40, 640, 1600])
def test_one_bad_run_of_65_does_not_hide_a_loss_of_15_percent(odd):
    verdict, _ = against([*NIGHTS[:-1], (1000, 1001, odd, 1002, 1000), NIGHTS[-1]], (850, 853, 848, 851, 852))
    assert verdict is SpeedVerdict.SLOWER


def test_one_bad_run_of_tonight_is_no_loss_and_is_known():
    verdict, tested = against(NIGHTS, (1000, 1001, 640, 1002, 1000))
    assert verdict is SpeedVerdict.SAME
    assert tested.odd == (pytest.approx(math.log(640)),)


def test_most_runs_of_a_session_are_its_value_however_odd_the_rest_is():
    verdict, tested = against(NIGHTS, (700, 702, 1000, 698, 1001))
    assert verdict is SpeedVerdict.SLOWER
    assert tested.effect.ratio == pytest.approx(0.7, rel=0.01)


def test_a_session_in_two_halves_keeps_all_of_them():
    halves = logarithms((700, 702, 1000, 1001))
    assert without_odd_runs([*logarithms(*NIGHTS), *halves])[-1] == halves[0]


def test_runs_that_are_equal_to_the_last_digit_make_no_other_odd():
    (kept,) = without_odd_runs(logarithms((1000, 1000, 1000, 1000, 1002)))
    assert len(kept) == 5


def test_what_is_shown_of_a_night_is_the_middle_of_its_usual_runs():
    night = (1000, 1001, 40, 1002, 1000)
    assert usual_mean(night) == pytest.approx(1000.75, rel=1e-4)
    mean, low, high = mean_interval(night)
    assert (mean, low > 990, high < 1010) == (pytest.approx(1000.75, rel=1e-4), True, True)
    assert usual_mean((40,)) == 40


def test_one_bad_pair_of_ten_does_not_hide_a_loss():
    rng = np.random.default_rng(1)
    pairs = [*(math.log(0.9) + 0.01 * rng.standard_normal(9)), math.log(0.6)]
    tested = compare_pairs(pairs)
    assert tested.odd == (pairs[-1],)
    (decision,) = judge_together([Number(cell=("one",), tested=tested)], MARGIN)
    assert decision.verdict is SpeedVerdict.SLOWER


@pytest.mark.thorough("statistics", but=["5"])
@pytest.mark.parametrize("pairs", [5, 10])
def test_pairs_of_normal_noise_are_called_different_as_rarely_as_ever(pairs):
    """One in 800 by chance, the limit for one of eight numbers: 5 of 4,000; three times as many would be a fault."""
    rng = np.random.default_rng(7)
    found = [compare_pairs(each).effect.p_value for each in rng.standard_normal((4000, pairs))]
    assert sum(value < ALPHA / 8 for value in found) <= 15


@pytest.mark.thorough("statistics")
def test_nights_with_one_run_in_twenty_far_slower_hardly_ever_fail_and_see_a_tenth():
    rng, alarms, seen = np.random.default_rng(3), 0, 0
    for _ in range(40):
        shape = (8, 22, 5)
        night = 0.01 * rng.standard_normal(shape) + math.log(0.7) * (rng.random(shape) < 0.05)
        numbers = [(list(each[:1]), list(each[1:-1]), each[-1]) for each in night]
        tested = [compare_by_sessions(b, [n], before=b, after=a, margin=MARGIN) for b, a, n in numbers]
        judged = [Number(cell=(f"{n}",), tested=each) for n, each in enumerate(tested)]
        alarms += any(each.verdict is SpeedVerdict.SLOWER for each in judge_together(judged, MARGIN))
        base, after, new = numbers[0]
        lost = compare_by_sessions(base, [new + math.log(0.9)], before=base, after=after, margin=MARGIN)
        judged[0] = Number(cell=("0",), tested=lost)
        seen += judge_together(judged, MARGIN)[0].verdict in (SpeedVerdict.SLOWER, SpeedVerdict.SUSPECTED)
    assert alarms <= 1  # 6.7 % of such nights failed with the mean of all runs
    assert seen >= 36  # of which 18 % were seen then
