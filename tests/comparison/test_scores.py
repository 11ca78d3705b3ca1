"""Scores of both sides, compared with each other and not only with their targets."""

import pytest

from mlbench.comparison.compare import compare

STEADY = [100, 101, 99, 100, 100]


def with_scores(a_run, scores, **target):
    record = a_run().accuracy.model_dump()
    targets = [record["targets"][0] | {"score": name} | target for name in scores]
    return record | {"scores": scores, "targets": targets}


def test_a_score_that_falls_inside_its_target_is_worse(runs, a_run):
    def scored(value):
        return runs(STEADY, accuracy=with_scores(a_run, {"acc": value}))

    comparison = compare(scored(98.99), scored(98.01))
    assert comparison.is_worse
    assert not comparison.cells[0].misses_target
    assert comparison.cells[0].scores[0].change == pytest.approx(-0.0099, abs=1e-4)
    assert not compare(scored(98.99), scored(98.01), accuracy_margin=0.02).is_worse
    assert not compare(scored(98.01), scored(98.99)).is_worse
    assert compare(scored(98.99), scored(98.60)).is_worse is False  # 0.4 %


def test_the_worst_of_a_score_is_the_lowest_and_of_a_distance_the_highest(runs, a_run):
    def scored(name, values, **target):
        accuracies = [with_scores(a_run, {name: value}, **target) for value in values]
        return [run for accuracy in accuracies for run in runs([100], accuracy=accuracy)]

    (score,) = compare(scored("acc", [90, 95]), scored("acc", [94, 95])).cells[0].scores
    assert (score.base, score.new, score.is_worse) == (90, 94, False)
    for name, target in (("FID_SCORE", {}), ("wer", {"lower_is_better": True})):
        (score,) = compare(scored(name, [23.1, 23.2], **target), scored(name, [23.2, 23.9], **target)).cells[0].scores
        assert (score.base, score.new, score.is_worse) == (23.2, 23.9, True)
        assert not compare(scored(name, [23.9], **target), scored(name, [23.1], **target)).is_worse


def test_accuracy_that_was_not_run_is_not_judged(runs, compare_after_quiet_nights):
    comparison = compare_after_quiet_nights(runs(STEADY), runs(STEADY, accuracy=None))
    assert comparison.not_judged == ("resnet50 pytorch Offline fp32, acc: accuracy was not run",)
    assert (comparison.judged_count, comparison.is_worse, comparison.is_blind) == (1, False, False)


def test_a_difference_that_grew_by_rounding_is_not_worse(runs, a_run):
    """It is 0 at best, so that twice as large says nothing; a tenth of the allowed one does."""

    def differing(value):
        target = {"lower": None, "upper": 1e-5, "reference": 0.0, "lower_is_better": True}
        return runs(STEADY, accuracy=with_scores(a_run, {"difference": value}, **target))

    assert not compare(differing(1e-8), differing(9e-7)).is_worse
    assert not compare(differing(0.0), differing(9e-7)).is_worse
    assert compare(differing(1e-8), differing(2e-6)).is_worse
    assert not compare(differing(2e-6), differing(1e-8)).is_worse


def test_a_perplexity_is_compared_where_both_sides_have_it_and_less_is_better(runs, a_run):
    def predicting(value):
        return runs(STEADY, accuracy=a_run().accuracy.model_dump() | {"perplexity": value})

    score = compare(predicting(8.0), predicting(8.2)).cells[0].scores[-1]
    assert (score.name, score.base, score.new, score.is_worse) == ("perplexity", 8.0, 8.2, True)
    assert not compare(predicting(8.2), predicting(8.0)).is_worse
    for base, new in ((None, 8.0), (8.0, None)):
        assert [each.name for each in compare(predicting(base), predicting(new)).cells[0].scores] == ["acc"]
