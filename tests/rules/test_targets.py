import pytest

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
