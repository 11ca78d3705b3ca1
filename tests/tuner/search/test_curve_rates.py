"""The rates of a curve: expected values are worked out by hand from the draft's formula."""

import itertools

import pytest

from mlbench.tuner.curve import curve_rates, mandatory_points


def test_the_mandatory_points_are_those_of_the_drafts_formula():
    # log2(1024 - 1) / 3 = 3.333: 2^3.333 = 10.08 and 2^6.666 = 101.5
    assert mandatory_points(1, 1024) == (1, 11, 103, 1024)
    # log2(15) / 3 = 1.302: 2^1.302 = 2.466 and 2^2.604 = 6.08
    assert mandatory_points(1, 16) == (1, 3, 7, 16)


def test_seven_rates_reach_from_a_sixteenth_to_saturation_and_stand_closer_there():
    # 1, 3, 7 and 16 sixteenths; halves of the widest gaps: 11.5 between 7 and 16, then 13.75 and 9.25
    assert curve_rates(1600) == (100, 300, 700, 925, 1150, 1380, 1600)


@pytest.mark.parametrize("points", [4, 7, 32])
def test_there_are_as_many_as_asked_for_and_none_twice(points):
    rates = curve_rates(3.7, points)
    assert len(set(rates)) == points
    assert list(rates) == sorted(rates)
    assert rates[-1] == 3.7


def test_more_points_leave_no_gap_wider():
    gaps = [max(b - a for a, b in itertools.pairwise(curve_rates(1000, points))) for points in (4, 7, 12, 32)]
    assert gaps == sorted(gaps, reverse=True)
