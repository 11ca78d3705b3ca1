"""Which version a bisection measures next, which runs make a pair, and what pairs say; sums are by hand."""

import json
import math
from dataclasses import replace

import pytest

from mlbench.comparison.bisection import Rule, Seen, differ, difference, judge, least_seen, reading_of, rule_for, see
from mlbench.comparison.bisection_order import VersionMark, next_place, next_run, pairs_among, suspects
from mlbench.comparison.measures import Measure

GOOD, BAD, SKIPPED, CANNOT_TELL = VersionMark.GOOD, VersionMark.BAD, VersionMark.SKIPPED, VersionMark.CANNOT_TELL
RULE = Rule(versions=16, pairs=10, margin=0.05)


@pytest.mark.parametrize(
    ("marks", "wanted"),
    [
        ({0: GOOD, 15: BAD}, 7),
        ({0: GOOD, 7: GOOD, 15: BAD}, 11),
        ({0: GOOD, 7: BAD, 15: BAD}, 3),
        ({0: GOOD, 1: BAD, 15: BAD}, None),
        ({0: GOOD, 7: SKIPPED, 15: BAD}, 8),  # its neighbours, the nearer to the middle first
        ({0: GOOD, 7: SKIPPED, 8: CANNOT_TELL, 15: BAD}, 6),
        ({0: GOOD, 1: SKIPPED, 2: SKIPPED, 3: BAD}, None),
        ({0: GOOD, 1: BAD}, None),
    ],
)
def test_the_middle_between_the_last_good_and_the_first_bad_one_comes_next(marks, wanted):
    assert next_place(marks) == wanted


def test_sixteen_versions_need_four_steps_wherever_the_bad_one_is():
    for first_bad in range(1, 16):
        marks, steps = {0: GOOD, 15: BAD}, 0
        while (place := next_place(marks)) is not None:
            marks[place] = GOOD if place < first_bad else BAD
            steps += 1
        assert (suspects(marks), steps <= RULE.steps == 4) == (range(first_bad, first_bad + 1), True)


def test_versions_without_a_verdict_stay_suspects():
    marks = {0: GOOD, 3: GOOD, 4: SKIPPED, 5: CANNOT_TELL, 6: BAD, 15: BAD}
    assert list(suspects(marks)) == [4, 5, 6]


@pytest.mark.parametrize(
    ("order", "pairs"),
    [
        ([0, 5, 5, 0, 0, 5], [(0, 1), (3, 2), (4, 5)]),  # A B B A A B
        ([0, 5, 5, 0], [(0, 1), (3, 2)]),
        ([0, 5, 0], [(0, 1)]),  # a run is in one pair of a version
        ([0, None, 5, 0], [(3, 2)]),
        ([0, 7, 5, 0], [(3, 2)]),
        ([5, 5], []),
        ([], []),
    ],
)
def test_neighbours_in_time_are_pairs(order, pairs):
    assert pairs_among(order, 5) == pairs


def test_a_run_of_the_good_end_is_in_a_pair_of_the_version_before_and_of_the_one_after():
    order = [0, 7, 7, 0, 5]
    assert (pairs_among(order, 7), pairs_among(order, 5)) == ([(0, 1), (3, 2)], [(3, 4)])


def test_runs_are_made_in_turns_and_go_on_from_the_last_run_of_the_good_end():
    order = []
    for place, count in ((7, 3), (5, 2)):
        while len(pairs_among(order, place)) < count:
            order.append(next_run(order, place))
    assert order == [0, 7, 7, 0, 0, 7, 0, 5, 5, 0]
    assert next_run([0, 7, 7, 0], 5) == 5  # that run of the good end is free for another version
    assert next_run([0, 7, None], 7) == 0  # the pause lost it its partner


def test_the_noise_of_all_versions_tells_how_sure_a_mean_is():
    """Sums of squares 2e-4 + 0.5e-4 by hand; 2 + 1 degrees of freedom; the error of a mean of two."""
    seen = see([[0.01, 0.0, -0.01], [-0.105, -0.095]])
    assert (seen.mean, seen.freedom, seen.pairs) == (pytest.approx(-0.1), 3, 2)
    assert seen.error == pytest.approx(math.sqrt(2.5e-4 / 3 / 2))


def test_a_version_that_varies_more_than_the_others_is_judged_by_its_own_noise():
    own = [-0.2, -0.1, 0.0]
    seen = see([[0.0, 0.001, -0.001, 0.0005], own])
    assert seen.error == pytest.approx(0.1 / math.sqrt(3))


CLOSE = [[-0.101, -0.099, -0.100, -0.1005]]


STRICT = replace(RULE, is_strict=True)


@pytest.mark.parametrize(
    ("own", "mark", "strictly"),
    [
        ([-0.100, -0.101, -0.099], BAD, BAD),
        ([0.001, 0.0, -0.001], GOOD, GOOD),
        ([0.001, 0.0], None, None),  # two are too few
        ([-0.06, -0.061, -0.059], BAD, BAD),  # the first of two losses
        ([-0.02, -0.021, -0.019], GOOD, GOOD),
        ([-0.04, -0.041, -0.039], GOOD, None),  # at the limit
        ([0.1, 0.101, 0.099], GOOD, GOOD),
        ([-0.02, 0.02, 0.0, 0.01], GOOD, None),  # it surely differs from the bad end
        ([-0.1, 0.1, 0.0], None, None),
    ],
)
def test_a_version_is_bad_that_differs_from_the_good_end_or_strictly_that_lost_two_fifths_of_the_whole(
    own, mark, strictly
):
    assert judge([*CLOSE, own], RULE, step=-0.1)[0] is mark
    assert judge([*CLOSE, own], STRICT, step=-0.1)[0] is strictly


def test_a_version_that_noise_hides_is_given_up_after_the_most_pairs():
    own = [-0.3, 0.2] * 5
    assert judge([*CLOSE, own], RULE, step=-0.1)[0] is CANNOT_TELL
    assert judge([*CLOSE, own[:9]], RULE, step=-0.1)[0] is None


def test_versions_differ_by_more_than_their_errors_together():
    """3.4 and 2.4 errors of the difference, 0.01 times the root of 2; at 1 % Student's t for ten is 3.17."""
    one, far, near = (Seen(mean=mean, error=0.01, freedom=10) for mean in (0.0, 0.048, 0.034))
    assert (differ(one, far), differ(one, near)) == (True, False)


def test_two_odd_pairs_do_not_make_the_third_one_odd():
    """Two of three runs were disturbed alike, by a third; three that agree are needed."""
    close = [[0.001 * each - 0.1 for each in (1, -1, 0, 2, -2, 1, -1, 0)]]
    own = [-0.3, -0.301, 0.0]
    assert judge([*close, own], RULE, step=-0.1)[0] is None
    assert judge([*close, [*own, 0.001, -0.001, 0.0, 0.001]], RULE, step=-0.1)[0] is GOOD


def test_a_verdict_stands_whatever_was_measured_later():
    """Whoever goes on with stored runs looks at them one after another, as they were made."""
    first = [-0.1, -0.101, -0.099]
    mark, seen = judge([[*first, 0.3, -0.5, 0.2]], RULE)
    assert (mark, seen) == judge([first], RULE)
    assert mark is BAD


@pytest.mark.parametrize(("loss", "mark"), [(0.04, GOOD), (0.06, BAD)])
def test_ends_must_differ_by_more_than_the_margin(loss, mark):
    noise = (0.0001, -0.0001, 0.0)
    assert judge([[math.log(1 - loss) + each for each in noise]], RULE)[0] is mark


def test_a_gain_is_a_step_too():
    assert judge([[0.1, 0.101, 0.099]], RULE)[0] is BAD
    assert judge([[0.1, 0.101, 0.099], [0.1, 0.099, 0.101]], RULE, step=0.1)[0] is BAD
    assert judge([[0.1, 0.101, 0.099], [0.0, 0.001, -0.001]], RULE, step=0.1)[0] is GOOD


def test_the_loss_that_would_be_seen_grows_with_the_noise():
    quiet, busy = (see([[scale * each for each in (-1, 0, 1, 0.5, -0.5)]]) for scale in (0.001, 0.05))
    assert 0.048 < least_seen(quiet, RULE) < 0.06 < least_seen(busy, RULE)


EXACT = Rule(versions=16, pairs=10, margin=0.005, is_exact=True)


@pytest.mark.parametrize(("score", "mark"), [(98.0, GOOD), (97.6, GOOD), (97.4, BAD)])
def test_accuracy_needs_one_run_and_its_margin(score, mark):
    good = Measure(name="acc", value=98.0, unit="", higher_is_better=True)
    found = difference(good, Measure(name="acc", value=score, unit="", higher_is_better=True), is_exact=True)
    assert judge([[found]], EXACT)[0] is mark


def test_a_score_that_fell_to_nothing_is_bad():
    good, none = (Measure(name="acc", value=value, unit="", higher_is_better=True) for value in (98.0, 0.0))
    assert judge([[difference(good, none, is_exact=True)]], EXACT)[0] is BAD
    assert difference(none, none, is_exact=True) == 0.0
    assert difference(none, good, is_exact=True) == math.inf


def test_of_a_latency_less_is_better():
    good, slow = (Measure(name="latency", value=value, unit="ns", higher_is_better=False) for value in (100, 110))
    assert difference(good, slow, is_exact=False) == pytest.approx(-math.log(1.1))


def test_a_measure_is_named_by_its_beginning(a_run):
    run = a_run(
        energy={"joules": 40.0, "seconds": 2.0, "source": "RAPL", "covers": "package-0", "joules_per_sample": 2.0}
    )
    assert reading_of(run, "speed") == reading_of(run, "throughput")
    assert reading_of(run, "energy").value == 2.0
    with pytest.raises(ValueError, match="it has no 'beauty'; it may have: throughput, energy per sample"):
        reading_of(run, "beauty")


def test_a_run_that_misses_its_accuracy_has_a_score_and_no_speed(a_run):
    verdict = a_run().verdict.model_dump()
    verdict["rules"][0] |= {"passed": False, "required": True}
    run = a_run(verdict=verdict | {"is_valid": False})
    assert reading_of(run, "accuracy").value == a_run().accuracy.scores["acc"]
    with pytest.raises(ValueError, match="INVALID"):
        reading_of(run, "speed")


def test_a_failed_run_has_no_number(a_failure):
    for measure in ("speed", "accuracy", "energy"):
        with pytest.raises(ValueError, match="failed"):
            reading_of(a_failure, measure)


def test_a_measure_is_named_by_its_kind_however_it_is_hyphenated(a_run):
    engine = json.loads(a_run().text())["engine"] | {"sweep_samples_per_s": {}}
    spent = {"unit": "sample", "covers": "all", "samples": 4, "rounds": 12}
    times = {"ns": 6e6, "reference_ns": 1.5e6, "relative_ns": 4e6}
    run = a_run(stages_ns={"load": 5, "compile": 7}, engine=engine, processor_time=spent | times)
    assert reading_of(run, "processor-time") == reading_of(run, "processor time")
    assert reading_of(run, "processor time").value == 4e6
    assert reading_of(run, "memory").name == "peak memory"
    assert reading_of(run, "startup") == reading_of(run, "start-up") == reading_of(run, "time to load")
    assert reading_of(run, "time to compile").value == 7


@pytest.mark.parametrize(
    ("measure", "margin", "is_exact"),
    [("speed", 0.05, False), ("accuracy", 0.005, True), ("start-up", 0.2, False), ("work", 0.01, True)],
)
def test_a_measure_has_the_margin_of_its_kind(measure, margin, is_exact):
    rule = rule_for(measure, versions=16, pairs=10, margin=None)
    assert (rule.margin, rule.is_exact) == (margin, is_exact)
    assert rule_for(measure, versions=16, pairs=10, margin=0.3).margin == 0.3
