"""Agreement of tokens, counted by hand."""

import numpy as np
import pytest
from mlbench_own_model.language_accuracy import TokenAgreement

from mlbench import InvalidRunError, LoggedReply, Precision

RIGHT = [[5, 6, 7, 8], [5, 6, 7, 2]]


def replies(*answers):
    return [LoggedReply(index=index, data=np.array(each, "<i8").tobytes()) for index, each in enumerate(answers)]


def metric_at(precision=Precision.FP32):
    """Return a function that returns the metric of three prompts, of which the first two have references."""
    right = [np.array(each, np.int64) for each in RIGHT]
    return TokenAgreement(lambda: right, compared=2, samples=3, precision=precision)


def test_equal_answers_agree_whatever_those_without_a_reference_are():
    metric = metric_at()
    assert metric.score(replies(*RIGHT, [1, 1])) == {"tokens_agree": 100, "answers_agree": 100}
    assert metric.first_wrong() == ""


def test_tokens_behind_the_first_difference_say_nothing():
    metric = metric_at()
    scores = metric.score(replies([5, 6, 9, 9], RIGHT[1]))
    assert scores == {"tokens_agree": pytest.approx(100 * 6 / 7), "answers_agree": 50}
    assert scores == metric.score(replies([5, 6, 9, 8], RIGHT[1]))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([[5, 9, 7, 8], [9]], "The answer to prompt 0 differs first at its token 1: token 9, not token 6."),
        ([RIGHT[0], [5, 6, 7, 8]], "The answer to prompt 1 differs first at its token 3: token 8, not token 2."),
        ([RIGHT[0][:3], RIGHT[1]], "The answer to prompt 0 differs first at its token 3: its end, not token 8."),
        ([[*RIGHT[0], 1], RIGHT[1]], "The answer to prompt 0 differs first at its token 4: token 1, not its end."),
    ],
)
def test_the_first_prompt_and_the_place_that_differ_are_named(answers, told):
    metric = metric_at()
    metric.score(replies(*answers))
    assert metric.first_wrong() == told


def test_answers_with_the_same_text_are_equal_however_they_are_cut():
    def text(tokens):
        return "".join({5: "a", 6: "b", 7: "ab"}[token] for token in tokens)

    right = np.array([5, 6, 5], np.int64)
    metric = TokenAgreement(lambda: [right], compared=1, samples=1, precision=Precision.FP32, text=text)
    assert metric.score(replies([7, 5])) == {"tokens_agree": 100, "answers_agree": 100}
    assert metric.score(replies([7, 6]))["tokens_agree"] == 0


def test_nothing_agrees_where_every_answer_begins_otherwise():
    assert metric_at().score(replies([9, 6, 7, 8], [9, 6, 7, 2])) == {"tokens_agree": 0, "answers_agree": 0}


@pytest.mark.parametrize(("name", "least"), [("fp32", 99.5), ("fp16", 98), ("bf16", 95), ("int8", 85), ("int4", 85)])
def test_a_precision_that_rounds_more_may_differ_more(name, least):
    (target,) = metric_at(Precision(name)).targets
    assert (target.score, target.lower, target.required) == ("tokens_agree", least, True)


def test_the_reference_is_asked_for_when_there_is_something_to_score():
    metric = TokenAgreement(lambda: 1 / 0, compared=1, samples=2, precision=Precision.FP32)
    assert metric.score([LoggedReply(index=1, data=bytes(8))])["tokens_agree"] == 0
    with pytest.raises(ZeroDivisionError):
        metric.score(replies(RIGHT[0]))


def test_a_reply_that_is_no_answer_names_its_sample():
    with pytest.raises(InvalidRunError, match="sample 1 has 9 bytes"):
        metric_at().score([LoggedReply(index=1, data=bytes(9))])
