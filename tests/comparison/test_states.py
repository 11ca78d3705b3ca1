"""Speeds that a machine takes alternately, found in made-up means of sessions; levels and counts are checked by eye."""

import math

import numpy as np
import pytest

from mlbench.comparison.states import find_states
from mlbench.comparison.tested import compare_by_sessions

MARGIN = 0.05
NOISE = [0.002, -0.001, 0.001, -0.002, 0.0, 0.001, -0.001]


def nights(text, levels):
    """Return a session per letter: ``ab`` is a night at each of two levels, a little off."""
    return [[levels[letter] + NOISE[n % len(NOISE)]] for n, letter in enumerate(text)]


def found(text, **levels):
    return [round(level, 2) for level in find_states(nights(text, levels), MARGIN).levels]


def test_levels_that_come_back_are_states_and_those_that_do_not_are_none():
    assert found("aaaabbbbaaaa", a=0, b=-0.12) == [-0.12, 0]
    assert found("aaaabbbbccccbbbb", a=0, b=-0.12, c=-0.5) == [-0.5, -0.12, 0]
    returns = [
        find_states(nights(each, {"a": 0, "b": -0.12}), MARGIN).returns for each in ("aaabbbbbaaaa", "aaabbbaaabbb")
    ]
    assert returns == [1, 2]
    assert len(found("aaaaaabbbbbb", a=0, b=-0.12)) == 1
    assert len(found("aaaabbbbcccc", a=0, b=-0.12, c=-0.3)) == 1  # each change could be one of the code


def test_two_bad_nights_a_difference_below_the_margin_and_a_short_history_are_no_states():
    assert len(found("aaaabbaaaaaa", a=0, b=-0.12)) == 1
    assert len(found("aaaabbbbaaaa", a=0, b=-0.04)) == 1
    assert len(found("aabbbaaaa", a=0, b=-0.12)) == 1


@pytest.mark.parametrize("count", [12, 20, 60])
def test_normal_noise_hardly_ever_looks_like_states(count):
    rng = np.random.default_rng(1)
    seen = [find_states([[each] for each in 0.1 * rng.standard_normal(count)], MARGIN).returns > 0 for _ in range(300)]
    assert sum(seen) <= 9  # 2 of 100, and chance


def against(text, tonight, base="a", **levels):
    """Compare a night with the first one, given all between."""
    first, *later = nights(base + text, levels)
    tested = compare_by_sessions([first], [[tonight]], before=[first], after=later, margin=MARGIN)
    assert tested
    return tested.effect


def test_a_night_within_the_known_states_is_no_change_and_one_below_them_is():
    history = {"text": "aaabbbbaaaabbbaaaa", "a": 0, "b": -0.12}
    within, below, above = (against(tonight=each, **history) for each in (-0.12, -0.2, 0.08))
    assert within.p_value > 0.5
    assert (round(within.steps.slowest, 2), round(within.steps.fastest, 2)) == (-0.12, 0)
    assert below.p_value < 1e-6
    assert above.p_value < 1e-6
    assert math.log(within.low) < -0.12 < 0 < math.log(within.high) < 0.02  # or it lost 12 %, as a fast night


def test_seen_from_a_base_at_the_slower_speed_the_faster_one_is_no_gain():
    effect = against("bbbaaaabbbbaaaabbb", 0, base="b", a=0, b=-0.12)
    assert (round(effect.steps.slowest, 2), round(effect.steps.fastest, 2)) == (0, 0.12)
    assert effect.p_value > 0.5
    assert against("bbbaaaabbbbaaaabbb", -0.2, base="b", a=0, b=-0.12).p_value < 1e-6


def test_what_a_slow_speed_is_left_for_at_the_end_only_stays_a_loss():
    """It came three nights ago, and was never there before."""
    effect = against("aaaaaaaaaaaabbb", -0.12, a=0, b=-0.12)
    assert effect.steps is None
    assert effect.p_value < 1e-6
