"""A line through logits: expected values are worked out by hand."""

import math

import pytest

from mlbench.toolkit.late_share import RatePoint, fit_late_share


def logit(share):
    return math.log(share / (1 - share))


def points(slope, *rates, many=1_000_000):
    """Return points exactly on a line that passes 1 % at 100/s."""
    found = []
    for rate in rates:
        share = 1 / (1 + math.exp(-logit(0.01) - slope * math.log(rate / 100)))
        found.append(RatePoint(rate, many, round(share * many)))
    return found


def test_points_on_a_line_give_the_line():
    fit = fit_late_share(points(16, 80, 90, 100, 110))
    assert fit.rate_at(0.01) == pytest.approx(100, rel=0.002)
    # 0.6 % is logit 0.515 below 1 %: a sixteenth of that down the logarithm of the rate
    assert fit.rate_at(0.006) == pytest.approx(100 * math.exp(-(logit(0.01) - logit(0.006)) / 16), rel=0.005)


def test_the_share_only_rises_with_the_rate_whatever_the_noise():
    fit = fit_late_share([RatePoint(90, 1000, 40), RatePoint(100, 1000, 10), RatePoint(110, 1000, 2)])
    assert fit.rate_at(0.005) < fit.rate_at(0.01) < fit.rate_at(0.02)


def test_one_run_without_a_late_query_leaves_a_usual_slope():
    fit = fit_late_share([RatePoint(100, 5000, 0)])
    assert fit.slope == 20
    assert 100 < fit.rate_at(0.006) < 150


def test_many_queries_weigh_more_than_few():
    few, many = RatePoint(100, 500, 20), RatePoint(100, 500_000, 5000)
    assert fit_late_share([few, many]).rate_at(0.01) == pytest.approx(100, rel=0.02)
    assert fit_late_share([few]).rate_at(0.04) == pytest.approx(100, rel=0.005)


def test_runs_that_lie_on_the_line_need_less_margin_than_runs_around_it():
    steady = points(16, 90, 95, 100, 105, 110)
    above_and_below = [
        RatePoint(each.rate_per_s, each.answered, round(each.late * factor))
        for each, factor in zip(steady, (1.5, 0.67, 1.5, 0.67, 1.5), strict=True)
    ]
    assert 0 < fit_late_share(steady).margin < 0.6 * fit_late_share(above_and_below).margin


def test_the_margin_of_few_runs_is_wider_than_that_of_many():
    assert fit_late_share(points(16, 98, 100)).margin > 1.1 * fit_late_share(points(16, *range(90, 111))).margin
