"""A comparison in words, as JSON and as JUnit: what is worse is said to be, and nothing else."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mlbench.comparison.comparability import Difference
from mlbench.comparison.compare import Cell, Comparison, Judged
from mlbench.comparison.effect import Effect
from mlbench.comparison.scores import Score
from mlbench.comparison.spread import Source, Spread
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.comparison import (
    WORSE,
    comparison_counts,
    comparison_json,
    comparison_junit,
    comparison_markdown,
    comparison_notes,
    comparison_rows,
)
from mlbench.reports.html.results import comparison_rows_table
from mlbench.reports.summary import comparison_headline, verdicts_of

SPREAD = Spread(source=Source.SESSIONS, between=0.01, within=0.01, repeats=2, freedom=9, count=10)

NAME = "resnet50 pytorch fp32 Offline"


def effect(ratio, low=None, high=None):
    return Effect(ratio=ratio, low=low or ratio * 0.99, high=high or ratio * 1.01, p_value=0.001)


def speed(verdict=SpeedVerdict.SAME, **changes):
    fields = {
        "measure": "throughput",
        "unit": "samples/s",
        "base": (100.0, 400.0),
        "new": (50.0, 200.0),
        "effect": effect(0.5),
        "verdict": verdict,
        "reason": "",
        "spread": None if verdict is SpeedVerdict.CANNOT_TELL else SPREAD,
    }
    return Judged(**fields | changes)


def score(base=98.0, new=98.0, **changes):
    return Score(name="acc", base=base, new=new, **changes)


def cell(*speeds, scores=(), **changes):
    name = changes.get("name", NAME)
    fields = {"name": name, "base_name": name, "key": ("a",), "misses_target": False}
    return Cell(**fields | {"speeds": speeds, "scores": scores, "set_aside": (), "differences": ()} | changes)


def comparison(*cells, missing=(), added=(), margin=0.05):
    return Comparison(cells=cells, missing=missing, added=added, margin=margin)


SLOWER = cell(speed(SpeedVerdict.SLOWER))
SAME = cell(speed())
UNTOLD = cell(speed(SpeedVerdict.CANNOT_TELL, effect=None, reason="one run a side"))
SUSPECTED = cell(speed(SpeedVerdict.SUSPECTED, reason="other cells changed too"))
LESS_ACCURATE = cell(speed(), scores=(score(new=90.0, is_worse=True),))
MISSED = cell(speed(), scores=(score(new=97.9),), misses_target=True)
AS_ACCURATE = cell(speed(SpeedVerdict.CANNOT_TELL, spread=SPREAD, detectable=0.97), scores=(score(),))
LOST = cell(lost=True, set_aside=("run 3f2a: crash",))


def rows(*cells, **more):
    return list(comparison_rows(comparison(*cells, **more)))


def test_repeats_are_averaged_as_ratios():
    """The geometric mean of 100 and 400 is 200, of 50 and 200 it is 100."""
    (row,) = rows(SLOWER)
    assert row[1:5] == ("throughput, 2 and 2 runs", "200 samples/s", "100 samples/s", "x 0.500")
    assert row[5] == "0.495 to 0.505"
    assert row[-1] == "slower"


def test_a_single_run_a_side_is_not_counted_aloud():
    (row,) = rows(cell(speed(base=(2_000_000.0,), new=(3_000_000.0,), unit="ns")))
    assert row[1:4] == ("throughput", "2.00 ms", "3.00 ms")


def test_an_interval_without_an_end_is_unknown():
    (row,) = rows(cell(speed(effect=effect(0.5, high=math.inf))))
    assert row[5] == "unknown"


def test_a_number_that_was_not_compared_with_anything_has_no_change():
    (row,) = rows(UNTOLD)
    assert row[4:] == ("", "", "", "cannot tell")


def test_what_could_be_detected_is_a_share():
    (row,) = rows(cell(speed(detectable=0.0312)))
    assert row[6] == "3.1%"


@pytest.mark.parametrize(
    ("found", "base", "new", "change", "verdict"),
    [
        (score(98.0, 98.0), "98.000", "98.000", "+0.0%", "as accurate"),
        (score(98.0, 90.0, is_worse=True), "98.000", "90.000", "-8.2%", "less accurate"),
        (score(98.0, 98.0002), "98.0000", "98.0002", "+0.0%", "as accurate"),
        (score(98.0, None, reason="no accuracy run"), "98.000", "none", "", "not judged"),
        (score(None, 98.0, reason="no accuracy run"), "none", "98.000", "", "not judged"),
    ],
)
def test_a_score_is_compared_with_the_bases(found, base, new, change, verdict):
    _, row = rows(cell(speed(), scores=(found,)))
    assert row[1:5] == ("acc", base, new, change)
    assert row[-1] == verdict


def test_a_score_that_newly_misses_its_target_is_less_accurate_however_little_it_lost():
    _, row = rows(MISSED)
    assert row[-1] == "less accurate"


def test_what_only_one_side_has_is_a_row():
    found = rows(LOST, cell(is_without_base=True), missing=("bert",), added=("gptj",))
    assert [(row[0], row[-1]) for row in found] == [
        ("resnet50 pytorch fp32 Offline", "no valid run"),
        ("resnet50 pytorch fp32 Offline", "no valid run in the base"),
        ("bert", "missing"),
        ("gptj", "new"),
    ]


@pytest.mark.parametrize(
    ("cells", "more", "begins"),
    [
        ((SAME,), {}, "no regression: 1 judged, 0 not judged"),
        ((SLOWER, SAME), {}, "worse: 2 judged, 0 not judged"),
        ((LESS_ACCURATE,), {}, "worse: 2 judged"),
        ((MISSED,), {}, "worse: 2 judged"),
        ((LOST,), {}, "worse: 1 judged"),
        ((SAME,), {"missing": ("bert",)}, "worse: 2 judged"),
        ((SUSPECTED,), {}, "suspected: 0 judged, 0 not judged, 1 suspected"),
        ((SLOWER, SUSPECTED), {}, "worse: 1 judged, 0 not judged, 1 suspected"),
        ((UNTOLD,), {}, "nothing could be judged: 0 judged, 1 not judged"),
        ((SAME, UNTOLD), {}, "no regression in what could be judged: 1 judged, 1 not judged"),
        ((SAME,), {"added": ("gptj",)}, "no regression: 1 judged"),
        ((AS_ACCURATE,), {}, "no regression, but no speed could be judged: 1 judged, 1 not judged"),
    ],
)
def test_the_first_line_says_whether_anything_is_worse_and_how_much_was_judged(cells, more, begins):
    assert comparison_counts(comparison(*cells, **more)).startswith(begins)


def test_a_comparison_of_backends_speaks_of_no_regression():
    of_backends = cell(speed(), differences=(Difference(fact="backend", base="pytorch", new="onnxruntime"),))
    assert comparison_counts(comparison(of_backends)).startswith("nothing is slower: 1 judged")


@pytest.mark.parametrize("bad", [SLOWER, LESS_ACCURATE, MISSED, LOST])
def test_a_regression_is_one_in_each_form(bad):
    found = comparison(bad)
    assert json.loads(comparison_json(found))["is_worse"] is True
    assert json.loads(comparison_json(found))["cells"][0]["is_worse"] is True
    assert "**worse**" in comparison_markdown(found, title="t")
    assert ElementTree.fromstring(comparison_junit(found)).get("failures") == "1"
    assert comparison_headline(found) == "Worse than the base: resnet50 pytorch fp32 Offline."
    assert any(row[-1] in WORSE for row in comparison_rows(found))
    assert any(each[-1].tone == "bad" for each in comparison_rows_table(found).rows)


@pytest.mark.parametrize("good", [SAME, UNTOLD, cell(speed(SpeedVerdict.FASTER))])
def test_what_is_no_regression_is_none_in_any_form(good):
    found = comparison(good)
    assert json.loads(comparison_json(found))["is_worse"] is False
    assert "**worse**" not in comparison_markdown(found, title="t")
    assert ElementTree.fromstring(comparison_junit(found)).get("failures") == "0"
    assert comparison_headline(found).startswith("No result is known to be worse than the base")
    assert not any(row[-1] in WORSE for row in comparison_rows(found))
    assert not any(each[-1].tone == "bad" for each in comparison_rows_table(found).rows)


def cases(found):
    """Return how each case of the JUnit file ended, by its name: failure, skipped or nothing, and the message."""
    suite = ElementTree.fromstring(comparison_junit(found))
    ends = {case.get("name"): [(each.tag, each.get("message")) for each in case] for case in suite.iter("testcase")}
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    assert suite.get("skipped") == str(len(suite.findall("testcase/skipped")))
    return ends


def test_junit_fails_a_loss_and_says_how_large_it_is():
    ends = cases(comparison(SLOWER))
    ((kind, message),) = ends["throughput"]
    assert kind == "failure"
    assert message == "slower: 200 samples/s, then 100 samples/s (x 0.500, 0.495 to 0.505)"
    assert ends["valid runs"] == []


def test_junit_fails_what_is_suspected_with_the_reason():
    ((kind, message),) = cases(comparison(SUSPECTED))["throughput"]
    assert kind == "failure"
    assert message.startswith("suspected: 200 samples/s")
    assert message.endswith(": other cells changed too")


def test_junit_skips_what_are_unknown_with_the_reason():
    assert cases(comparison(UNTOLD))["throughput"] == [("skipped", "one run a side")]


@pytest.mark.parametrize("cells", [(UNTOLD,), (UNTOLD, UNTOLD), ()], ids=["one", "several", "no cell"])
def test_junit_is_not_green_where_nothing_could_be_judged(cells):
    found = comparison(*cells)
    suite = ElementTree.fromstring(comparison_junit(found))
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    ((kind, message),) = cases(found)["anything judged"]
    assert (kind, message) == ("error", comparison_counts(found))
    assert message.startswith("nothing could be judged: 0 judged")


@pytest.mark.parametrize("cells", [(SAME,), (SAME, UNTOLD), (SLOWER,), (AS_ACCURATE,)])
def test_junit_has_no_error_where_something_was_judged(cells):
    found = comparison(*cells)
    assert "anything judged" not in cases(found)
    assert ElementTree.fromstring(comparison_junit(found)).get("errors") == "0"


def test_junit_fails_what_is_missing_and_what_has_no_valid_run():
    ends = cases(comparison(LOST, missing=("bert pytorch fp32 Server",)))
    assert ends["present"] == [("failure", "the base has runs, the new side has none")]
    assert ends["valid runs"] == [("failure", "the new side has none: run 3f2a: crash")]


def test_junit_fails_a_score_and_says_by_how_much_it_fell():
    """8 of 98 are 8.16 %."""
    assert cases(comparison(LESS_ACCURATE))["accuracy, acc"] == [("failure", "worse by 8.16%: 98.0, then 90.0")]
    assert cases(comparison(MISSED))["accuracy, acc"] == [("failure", "a target is missed: 98.0, then 97.9")]
    assert cases(comparison(cell(speed(), scores=(score(),))))["accuracy, acc"] == []


def test_the_class_of_a_case_is_what_ran():
    suite = ElementTree.fromstring(comparison_junit(comparison(SAME)))
    assert {case.get("classname") for case in suite.iter("testcase")} == {"resnet50.pytorch.fp32.Offline"}


def test_json_has_the_counts_and_null_for_an_end_that_is_infinite():
    found = json.loads(
        comparison_json(comparison(cell(speed(effect=effect(0.5, high=math.inf))), UNTOLD, SUSPECTED, margin=0.1))
    )
    assert (found["judged"], len(found["not_judged"]), len(found["suspected"])) == (1, 1, 1)
    assert found["cells"][0]["speeds"][0]["effect"]["high"] is None
    assert (found["is_worse"], found["is_blind"], found["margin"]) == (False, False, 0.1)
    assert json.loads(comparison_json(comparison(UNTOLD)))["is_blind"] is True
    assert json.loads(comparison_json(comparison(LESS_ACCURATE)))["cells"][0]["is_less_accurate"] is True


def test_the_notes_say_what_counts_as_no_change():
    notes = list(comparison_notes(comparison(SAME, margin=0.1)))
    assert notes == ["Changes counted as the same: of a speed less than 10%, of a score less than 0.5%."]


def test_the_notes_name_runs_that_were_left_out_and_what_could_not_be_judged():
    notes = list(comparison_notes(comparison(UNTOLD, LOST)))
    assert "resnet50 pytorch fp32 Offline, throughput: one run a side." in notes
    assert "resnet50 pytorch fp32 Offline: left out run 3f2a: crash." in notes


def test_the_notes_say_which_runs_had_other_work_beside_them():
    notes = list(
        comparison_notes(comparison(replace(SAME, beside=("in the base 2 of 5 runs were made under other load",))))
    )
    assert "resnet50 pytorch fp32 Offline, in the base 2 of 5 runs were made under other load." in notes


def test_what_is_said_of_many_cells_stands_once_with_their_count():
    reasons = "1 of 10 sessions are known, so sessions are assumed to differ by 93%", "the machine alternates"
    untold = [
        cell(speed(SpeedVerdict.CANNOT_TELL, effect=None, reason=reason), name=name, beside=(beside,))
        for name, reason, beside in (
            ("bert Offline", reasons[0], "in the base 4 of 5 runs were made under other load"),
            ("bert Server", reasons[1], "on the new side 1 of 5 runs were made under other load"),
            ("gptj Offline", reasons[0].replace("93%", "8.5%"), "in the base 3 of 5 runs were made under other load"),
            ("gptj Server", reasons[0].replace("93%", "354%"), "in the base 5 of 5 runs were made under other load"),
        )
    ]
    notes = list(comparison_notes(comparison(*untold)))
    assert notes[:4] == [
        f"bert Offline, throughput: {reasons[0]}; likewise 2 more.",
        f"bert Server, throughput: {reasons[1]}.",
        "bert Offline, in the base 4 of 5 runs were made under other load; likewise 2 more.",
        "bert Server, on the new side 1 of 5 runs were made under other load.",
    ]
    assert all(
        f"{name}, throughput: " in str(comparison(*untold).not_judged) for name in ("gptj Offline", "gptj Server")
    )


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.5, 2, "0.500 to 2.000"), (0.00004, 20645.8, "< 0.1 to > 10"), (0.2, 55.0, "0.200 to > 10")],
)
def test_an_end_of_an_interval_that_is_far_from_one_is_only_said_to_be(low, high, text):
    (row,) = rows(cell(speed(effect=effect(0.5, low, high))))
    assert row[5] == text


def test_what_can_be_detected_is_explained_only_where_it_is_shown():
    explained = "detectable:"
    assert any(
        note.lower().startswith(explained) for note in comparison_notes(comparison(cell(speed(detectable=0.03))))
    )
    assert not any(note.lower().startswith(explained) for note in comparison_notes(comparison(SAME)))


def test_markdown_has_a_row_for_each_row_and_no_cell_breaks_it():
    awkward = cell(speed(), name="a|b\n<i>")
    lines = comparison_markdown(comparison(awkward, SLOWER), title="new | base").splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) == 4, "heading and rule, then two"
    assert lines[0] == r"## new \| base"
    assert table[2].startswith(r"| a\|b &lt;i> |")


def test_verdicts_are_counted_in_the_headline():
    found = comparison(cell(speed(SpeedVerdict.FASTER), speed()), SUSPECTED, UNTOLD)
    assert verdicts_of(found)[SpeedVerdict.FASTER] == 1
    assert comparison_headline(found) == (
        "No result is known to be worse than the base: 1 faster, 1 suspected, 1 same, 1 inconclusive."
    )
    assert comparison_headline(comparison()) == "There is nothing to compare."


@pytest.mark.parametrize(
    ("verdict", "tone"),
    [
        (SpeedVerdict.FASTER, "good"),
        (SpeedVerdict.SLOWER, "bad"),
        (SpeedVerdict.SAME, ""),
        (SpeedVerdict.CANNOT_TELL, "quiet"),
    ],
)
def test_the_report_colours_a_verdict_by_what_it_means(verdict, tone):
    (row,) = comparison_rows_table(comparison(cell(speed(verdict)))).rows
    assert row[-1].tone == tone
