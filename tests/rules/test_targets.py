import math

import pytest

from mlbench.contracts.metric import Target
from mlbench.rules.targets import share_targets


def test_the_first_variant_is_required_and_the_stricter_one_is_reported():
    required, stricter = share_targets("ROUGE1", 42.9865, {"99": 0.99, "99.9": 0.999})
    assert (required.name, required.required, required.lower) == ("99", True, pytest.approx(42.556635))
    assert (stricter.name, stricter.required, stricter.lower) == ("99.9", False, pytest.approx(42.9435135))
    assert required.score == stricter.score == "ROUGE1"
    assert required.upper is None


def test_a_length_may_be_too_long_too():
    (target,) = share_targets("TOKENS_PER_SAMPLE", 294.45, {"99": 0.9}, upper_share=1.1)
    assert (target.lower, target.upper) == (pytest.approx(265.005), pytest.approx(323.895))
    assert target.is_met_by(265.1) and target.is_met_by(323.8)
    assert not target.is_met_by(265.0) and not target.is_met_by(323.9)


def test_a_word_error_rate_may_be_up_to_its_bound_and_no_more():
    target = Target.at_most("WER", 7.5, reference=7.45)
    assert [target.is_met_by(rate) for rate in (0.0, 7.5, 7.51, math.nan)] == [True, True, False, False]
    assert target.lower_is_better


def test_a_mini_model_is_held_to_the_same_shares_of_its_own_score():
    assert Target.at_least("acc", 99.0, reference=100.0, name="99").scaled_to(91.0).lower == pytest.approx(90.09)
    most = Target.at_most("WER", 6.0, reference=5.0).scaled_to(10.0)
    assert (most.lower, most.upper, most.reference) == (None, 12.0, 10.0)


def test_a_target_without_a_bound_and_shares_of_nothing_are_mistakes():
    with pytest.raises(ValueError, match="neither a lower nor an upper bound"):
        Target(score="acc", reference=1.0)
    with pytest.raises(ValueError, match="the reference is 0"):
        Target.at_most("FID", 3.0, reference=0.0).scaled_to(2.0)
