"""Scores and agreement, with a metric that a child can follow: a reply is right when its byte is the sample's index."""

import math

import pytest

from mlbench.contracts.metric import LoggedReply, Metric, Target
from mlbench.scoring import agreement, score


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


def test_replies_to_the_same_sample_are_compared_in_any_order():
    reference = [reply(3, 3), reply(1, 1), reply(2, 2)]
    agreed = agreement(ShareRight(), [reply(1, 1), reply(2, 9), reply(1, 8), reply(3, 3)], reference)
    assert agreed.checked == 4
    assert agreed.differing == (2, 1)


def test_of_a_sample_answered_twice_in_the_accuracy_run_the_first_reply_counts():
    reference = [reply(1, 1), reply(1, 9)]
    assert agreement(ShareRight(), [reply(1, 1)], reference).differing == ()
    assert agreement(ShareRight(), [reply(1, 9)], reference).differing == (1,)


def test_the_accuracy_runs_replies_may_come_one_at_a_time():
    reference = (reply(index, index) for index in (2, 1, 3))
    assert agreement(ShareRight(), [reply(1, 1), reply(3, 9), reply(1, 1)], reference).differing == (3,)


def test_a_sample_that_the_accuracy_run_never_answered_differs():
    assert agreement(ShareRight(), [reply(7, 7)], []).differing == (7,)


def test_the_metric_decides_what_is_the_same():
    class Rounding(ShareRight):
        def agrees(self, reply, reference):
            return abs(reply[0] - reference[0]) <= 1

    agreed = agreement(Rounding(), [reply(1, 10), reply(2, 12)], [reply(1, 11), reply(2, 10)])
    assert agreed.differing == (2,)
