"""Effects of known size, counted by hand or drawn from distributions that are known."""

import math

import numpy as np
import pytest
import scipy

from mlbench.comparison.effect import adjust_p_values, effect_of, is_bimodal


def test_twice_the_throughput_is_twice_as_fast():
    effect = effect_of([100, 100, 100], [200, 200, 200], higher_is_better=True)
    assert (effect.ratio, effect.low, effect.high) == pytest.approx((2, 2, 2))
    assert effect.p_value == 0


def test_twice_the_latency_is_half_as_fast():
    assert effect_of([5e6, 5e6], [10e6, 10e6], higher_is_better=False).ratio == pytest.approx(0.5)


def test_the_ratio_is_of_geometric_means():
    effect = effect_of([1, 100], [10, 10, 10], higher_is_better=True)  # both have the geometric mean 10
    assert effect.ratio == pytest.approx(1)


def test_equal_repeats_are_no_difference():
    assert effect_of([7.0, 7.0, 7.0], [7.0, 7.0, 7.0], higher_is_better=True).p_value == 1


def test_welchs_test_is_scipys_on_the_logarithms():
    # logs 0, 1, 2 and 3, 4, 5: difference 3, standard error sqrt(1/3 + 1/3), so t = 3.674 with 4 degrees of freedom
    effect = effect_of([math.e**n for n in (0, 1, 2)], [math.e**n for n in (3, 4, 5)], higher_is_better=True)
    assert effect.p_value == pytest.approx(0.0213, abs=1e-4)
    assert math.log(effect.low) == pytest.approx(3 - 2.776 * 0.8165, abs=1e-3)  # t table: 2.776 at 4 degrees
    assert math.log(effect.high) == pytest.approx(3 + 2.776 * 0.8165, abs=1e-3)


@pytest.mark.parametrize(("ours", "theirs"), [(2, 2), (3, 5), (9, 4)])
def test_interval_and_p_value_of_few_repeats_are_scipys(ours, theirs):
    rng = np.random.default_rng(ours)
    base, new = np.exp(rng.normal(0, 0.1, ours)), np.exp(rng.normal(0.1, 0.3, theirs))
    expected = scipy.stats.ttest_ind(np.log(new), np.log(base), equal_var=False)
    interval = expected.confidence_interval(0.95)
    effect = effect_of(base, new, higher_is_better=True)
    assert (effect.p_value, effect.low, effect.high) == pytest.approx(
        (expected.pvalue, math.exp(interval.low), math.exp(interval.high))
    )


def test_many_p_values_are_corrected_step_by_step():
    # Holm by hand: 0.01 x 4, 0.02 x 3, 0.03 x 2 (raised to the one before), 0.5 x 1
    assert adjust_p_values([0.02, 0.5, 0.01, 0.03]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert adjust_p_values([0.9, 0.9]) == [1.0, 1.0]
    assert adjust_p_values([]) == []


@pytest.mark.thorough("statistics", but=["5"])
@pytest.mark.parametrize("repeats", [5, 12])
def test_the_interval_holds_the_true_ratio_in_about_95_of_100_comparisons(repeats):
    rng, held, tries = np.random.default_rng(4), 0, 200
    for _ in range(tries):
        base, new = (100 * np.exp(rng.normal(mean, 0.03, repeats)) for mean in (0, 0.1))
        effect = effect_of(base, new, higher_is_better=True)
        held += effect.low <= math.exp(0.1) <= effect.high
    assert 0.90 <= held / tries <= 0.99


def test_the_same_repeats_give_the_same_interval():
    base, new = [100, 103, 99, 101, 98], [95, 96, 92, 99, 94]
    assert effect_of(base, new, higher_is_better=True) == effect_of(base, new, higher_is_better=True)


def test_bimodal_repeats_are_noticed_and_others_are_not():
    rng = np.random.default_rng(1)
    assert is_bimodal([*rng.normal(100, 1, 5), *rng.normal(140, 1, 5)])
    assert not any(is_bimodal(rng.normal(100, 1, 10)) for _ in range(20))
    assert not is_bimodal([100, 100, 140, 140])  # too few to say
