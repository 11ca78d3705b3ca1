"""Scores and agreement, with a metric that a child can follow: a reply is right when its byte is the sample's index."""

import math

import numpy as np
import pytest

from mlbench.contracts.metric import DifferenceLimits, LoggedReply, Metric, OutputReference, Target
from mlbench.contracts.precision import Precision
from mlbench.errors import InvalidRunError
from mlbench.rules.scoring import agreement, differences_measured, score


class ShareRight(Metric):
    """The share of replies that say their own index."""

    targets = (
        Target(score="right", reference=1.0, lower=0.5, name="99"),
        Target(score="right", reference=1.0, lower=0.9, name="99.9", required=False),
    )

    def score(self, replies):
        return {"right": sum(reply.data == bytes([reply.index]) for reply in replies) / len(replies)}

    def line(self, scores):
        return f"right={scores['right']:.1f}"


def reply(index, says):
    return LoggedReply(index=index, data=bytes([says]))


def test_a_score_comes_with_its_targets_and_the_official_line():
    accuracy = score(ShareRight(), [reply(1, 1), reply(2, 2), reply(3, 3), reply(4, 9)])
    assert accuracy.scores == {"right": 0.75}
    assert [result.is_met for result in accuracy.targets] == [True, False]
    assert accuracy.line == "right=0.8"
    assert accuracy.is_met, "the stricter target is only reported"


def test_a_required_target_that_is_missed_is_not_met():
    assert not score(ShareRight(), [reply(1, 1), reply(2, 9), reply(3, 9)]).is_met


@pytest.mark.parametrize("scores", [{"right": math.nan}, {"other": 1.0}])
def test_a_score_that_is_missing_or_no_number_meets_no_target(scores):
    class Broken(ShareRight):
        def score(self, replies):
            return scores

        def line(self, scores):
            return ""

    assert not score(Broken(), [reply(1, 1)]).is_met


def compared(sampled, reference, metric=None):
    return agreement(metric or ShareRight(), sampled, reference, Precision.FP32)


def test_replies_to_the_same_sample_are_compared_in_any_order():
    reference = [reply(3, 3), reply(1, 1), reply(2, 2)]
    agreed = compared([reply(1, 1), reply(2, 9), reply(1, 8), reply(3, 3)], reference)
    assert agreed.checked == 4
    assert agreed.differing == (2, 1)
    assert agreed.mean == 0.5


def test_of_a_sample_answered_twice_in_the_accuracy_run_the_first_reply_counts():
    reference = [reply(1, 1), reply(1, 9)]
    assert compared([reply(1, 1)], reference).differing == ()
    assert compared([reply(1, 9)], reference).differing == (1,)


def test_the_accuracy_runs_replies_may_come_one_at_a_time():
    reference = (reply(index, index) for index in (2, 1, 3))
    assert compared([reply(1, 1), reply(3, 9), reply(1, 1)], reference).differing == (3,)


def test_a_sample_that_the_accuracy_run_never_answered_differs():
    agreed = compared([reply(7, 7)], [])
    assert agreed.differing == (7,)
    assert agreed.mean == 1


def test_no_reply_at_all_has_no_difference():
    agreed = compared([], [reply(1, 1)])
    assert (agreed.checked, agreed.mean, agreed.largest) == (0, 0, 0)


class Rounding(ShareRight):
    """Measures how far replies are from each other, in tenths."""

    def difference(self, reply, reference):
        return (reply[0] - reference[0]) / 10

    def difference_limits(self, precision):
        return DifferenceLimits(one=0.2 if precision is Precision.FP32 else 0.5, mean=0.15)


def test_the_metric_says_how_far_replies_are_apart_and_may_be():
    agreed = compared([reply(1, 12), reply(2, 13)], [reply(1, 10), reply(2, 10)], Rounding())
    assert agreed.differing == (2,)
    assert agreed.mean == pytest.approx(0.25)
    assert agreed.largest == pytest.approx(0.3)
    assert agreed.limits.mean == 0.15


def test_the_limits_are_those_of_the_runs_precision():
    assert agreement(Rounding(), [reply(2, 13)], [reply(2, 10)], Precision.BF16).differing == ()


@pytest.mark.parametrize("found", [math.nan, math.inf, 7.0, -0.5])
def test_a_difference_that_is_none_counts_as_the_largest(found):
    class Broken(Rounding):
        def difference(self, reply, reference):
            return found

    agreed = compared([reply(1, 1)], [reply(1, 1)], Broken())
    assert (agreed.differing, agreed.mean) == ((1,), 1)


def test_limits_of_a_difference_lie_between_none_and_all():
    with pytest.raises(ValueError, match="from 0 to 1"):
        DifferenceLimits(one=0.1, mean=1.5)
    with pytest.raises(ValueError, match="from 0 to 1"):
        DifferenceLimits(one=-0.1, mean=0.5)


class Halves(ShareRight):
    """A reply is bytes of numbers, as many halves each; an answer is right whatever it holds."""

    def __init__(self, wanted, bounds=None):
        self.output_reference = OutputReference(
            outputs={index: np.array(halves) / 2 for index, halves in wanted.items()},
            bounds=bounds or {Precision.FP32: 0.1, Precision.BF16: 0.5},
            unit="halves",
        )

    def outputs(self, reply):
        return np.frombuffer(reply.data, np.uint8).astype(np.float32) / 2


class Names(ShareRight):
    """A reply is bytes of names."""

    def __init__(self, wanted):
        outputs = {index: np.array(names, dtype=np.int16) for index, names in wanted.items()}
        self.output_reference = OutputReference(outputs=outputs, bounds={Precision.FP32: 0.1}, unit="of the names")


def replies(**data):
    return [LoggedReply(index=int(name[1:]), data=bytes(values)) for name, values in data.items()]


def test_outputs_that_are_numbers_differ_by_their_mean_absolute_difference():
    metric = Halves({3: [2, 4], 5: [6, 6]})
    found = score(metric, replies(_3=[2, 5], _4=[99], _5=[4, 7])).output_difference
    assert found.value == pytest.approx((0 + 0.5 + 1 + 0.5) / 4)
    assert (found.samples, found.unit, found.precision, found.bound) == (2, "halves", "fp32", 0.1)


def test_outputs_that_are_names_differ_by_the_share_of_places_that_hold_another_or_only_one_has():
    metric = Names({1: [7, 8, 9], 2: [7]})
    found = score(metric, replies(_1=[7, 9, 9], _2=[7, 7])).output_difference
    assert found.value == pytest.approx(2 / 5)  # the second of three, and what follows the one


def test_a_number_that_only_one_side_has_is_as_far_away_as_it_is_large():
    assert score(Halves({1: [2, 4]}), replies(_1=[2])).output_difference.value == pytest.approx((0 + 2) / 2)


def test_the_precision_of_the_run_decides_how_far_outputs_may_be():
    metric, answered = Halves({1: [2, 4]}), replies(_1=[2, 5])
    accuracies = {each: score(metric, answered, Precision(each)) for each in ("fp32", "bf16", "int8")}
    assert {each: found.output_difference.is_met for each, found in accuracies.items()} == {
        "fp32": False,
        "bf16": True,
        "int8": True,  # which nobody has measured
    }
    assert accuracies["int8"].output_difference.bound is None


def test_outputs_too_far_away_are_not_accurate_though_the_score_is():
    class Right(Halves):
        def score(self, replies):
            return {"right": 1.0}

    found = score(Right({1: [2]}), replies(_1=[9]))
    assert all(result.is_met for result in found.targets)
    assert not found.is_met


def test_the_first_reply_to_a_sample_is_compared():
    metric = Halves({1: [2]})
    answered = [*replies(_1=[2]), *replies(_1=[9])]
    assert score(metric, answered).output_difference.value == 0


def test_a_number_that_is_none_is_never_near():
    class Broken(Halves):
        def outputs(self, reply):
            return np.array([np.nan])

    assert not score(Broken({1: [2]}), replies(_1=[2])).output_difference.is_met


def test_a_sample_with_a_reference_must_have_been_answered():
    with pytest.raises(InvalidRunError, match="sample 5 was not answered"):
        score(Halves({1: [2], 5: [2]}), replies(_1=[2]))


def test_a_metric_without_a_reference_says_nothing_of_outputs():
    assert score(ShareRight(), [reply(1, 1)]).output_difference is None


def test_replies_kept_while_measuring_are_as_far_from_the_model_as_they_are():
    metric = Halves({3: [2, 4], 5: [6, 6], 7: [1, 1]})
    accurate = replies(_3=[2, 4], _5=[6, 7], _7=[9, 9])
    measured, scored = differences_measured(metric, replies(_3=[4, 4], _5=[6, 6], _4=[1]), accurate, Precision.FP32)
    assert (measured.value, scored.value) == (1 / 4, 0.5 / 4)
    assert measured.samples == scored.samples == 2
    assert differences_measured(metric, replies(_4=[1]), accurate, Precision.FP32) is None
