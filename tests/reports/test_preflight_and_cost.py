"""What runs will take, what they cost, and how a check went, in words and pictures: hand arithmetic."""

import json
from xml.etree import ElementTree

import pytest

from mlbench.comparison.cost import Yield, Yields
from mlbench.records.expected_cost import Basis, ExpectedCost, ExpectedTime
from mlbench.records.store.query import QueryResult
from mlbench.reports.answer import answer_csv, answer_json, answer_table
from mlbench.reports.badge import badge
from mlbench.reports.cost import cost_columns, cost_json, cost_notes, cost_rows, cost_table
from mlbench.reports.preflight import preflight


def expected(done=0, *, seconds=14 * 60, basis=Basis.SAME, **changes):
    fields = {
        "runs": 4,
        "similar_runs": 0,
        "elsewhere_runs": 0,
        "unknown_runs": 0,
        "disk_bytes": 0,
        "peak_memory_bytes": None,
    }
    return preflight(ExpectedCost(**fields | changes, time=ExpectedTime(seconds=seconds, basis=basis)), done=done)


def test_runs_that_are_there_are_not_announced_again():
    assert expected(7, runs=0) == "All 7 runs are stored already; --fresh repeats them."


def test_an_estimate_says_what_it_rests_on():
    assert expected() == "4 runs to make; about 14 min (known from earlier runs)."
    similar = expected(similar_runs=1, basis=Basis.SIMILAR)
    assert (
        similar
        == "4 runs to make; roughly 14 min (3 known from earlier runs, 1 guessed from other runs of their tier)."
    )
    assert expected(elsewhere_runs=4, basis=Basis.ELSEWHERE) == (
        "4 runs to make; perhaps 14 min (no run of this tier was made here yet, estimated from other runs on a"
        " 2-core machine)."
    )
    assert expected(unknown_runs=4, basis=Basis.NOTHING).startswith("4 runs to make; more than 14 min (no run of this")


def test_disk_is_in_megabytes_and_memory_in_gibibytes():
    text = expected(disk_bytes=12_345_678, peak_memory_bytes=3 * 2**30)
    assert "; about 12.3 MB of disk; up to 3.0 GiB of memory in earlier runs (" in text


def test_runs_that_are_there_are_counted_beside_those_to_make():
    assert expected(5, runs=2).startswith("2 runs to make, 5 are stored; ")


def row(**changes):
    """Return 100 samples a second at 3.60 a dollar an hour: 100,000 for a dollar."""
    fields = {
        "name": "resnet50 pytorch fp32 Offline",
        "instance": "g6",
        "per_hour": 3.6,
        "currency": "USD",
        "unit": "samples",
        "runs": 5,
        "per_second": 100.0,
        "bought": 100_000.0,
        "low": 98_000.0,
        "high": 102_000.0,
    }
    return Yield(**fields | changes)


def yields(*rows, left_out=(), source=""):
    return Yields(rows=rows, left_out=left_out, source=source)


def test_a_million_samples_cost_a_million_over_what_a_dollar_buys():
    (cells,) = cost_rows(yields(row()))
    assert cells == (
        "resnet50 pytorch fp32 Offline (5)",
        "g6",
        "3.6",
        "100 samples/s",
        "100,000 samples",
        "98,000 to 102,000",
        "10.0",
    )


def test_one_run_shows_no_interval():
    (cells,) = cost_rows(yields(row(runs=1, low=None, high=None)))
    assert cells[5] == "unknown: one run"


def test_the_headings_name_the_currency():
    headings = [each.removesuffix("#") for each in cost_columns(yields(row(currency="EUR")))]
    assert headings == ["runs", "instance", "EUR/h", "throughput", "per EUR", "interval", "EUR per million"]


def test_the_table_has_the_same_cells_under_the_same_headings():
    table = cost_table(yields(row(), row(instance="cpu")))
    assert [str(column.header) for column in table.columns][:2] == ["runs", "instance"]
    assert [str(cell) for cell in table.columns[1].cells] == ["g6", "cpu"]
    assert table.row_count == 2


def test_notes_say_where_prices_come_from_and_what_is_in_no_row():
    assert cost_notes(yields(row(), left_out=("run 3f2a: a latency",), source="the list of 2026-11")) == [
        "Prices: the list of 2026-11.",
        "Left out run 3f2a: a latency.",
    ]
    assert cost_notes(yields(row())) == []


def test_json_has_rows_what_was_left_out_and_the_source():
    found = json.loads(cost_json(yields(row(), left_out=("a",), source="s")))
    assert (found["left_out"], found["source"]) == (["a"], "s")
    assert found["rows"][0]["bought"] == 100_000


SVG = "{http://www.w3.org/2000/svg}"


def fills(text):
    return [each.get("fill") for each in ElementTree.fromstring(text).iter(f"{SVG}rect")]


def test_a_badge_says_what_was_checked_and_how_it_went():
    root = ElementTree.fromstring(badge("mlbench conformance", "58 of 60, fp32", is_good=False))
    assert [each.text for each in root.iter(f"{SVG}text")] == ["mlbench conformance", "58 of 60, fp32"]
    assert root.get("aria-label") == "mlbench conformance: 58 of 60, fp32"


def test_a_badge_is_green_or_red():
    good, bad = (fills(badge("a", "b", is_good=is_good))[1] for is_good in (True, False))

    def channels(colour):
        return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]

    assert channels(good)[1] == max(channels(good))
    assert channels(bad)[0] == max(channels(bad))


def test_the_fields_of_a_badge_are_side_by_side_and_as_wide_as_the_picture():
    root = ElementTree.fromstring(badge("abc", "a longer message", is_good=True))
    left, right = root.iter(f"{SVG}rect")
    assert left.get("x") == "0"
    assert right.get("x") == left.get("width")
    assert int(left.get("width")) + int(right.get("width")) == int(root.get("width"))
    assert int(right.get("width")) > int(left.get("width"))


def test_a_badge_takes_any_text_as_text():
    root = ElementTree.fromstring(badge("<b>&", '"x"', is_good=True))
    assert root.find(f"{SVG}title").text == '<b>&: "x"'


ANSWER = QueryResult(columns=("name", "value"), rows=(("=1+1", 0.123456789), (None, float("nan")), ("-x", 7)))


def test_an_answer_in_csv_has_no_formula():
    assert answer_csv(ANSWER).splitlines() == ["name,value", "'=1+1,0.123456789", ",nan", "'-x,7"]


@pytest.mark.parametrize("text", ["=A1", "+A1", "-A1", "@A1", "\tA1"])
def test_whatever_begins_a_formula_is_guarded_in_heading_and_cell(text):
    heading, cell = answer_csv(QueryResult(columns=(text,), rows=((text,),))).splitlines()
    assert heading == cell == f"'{text}"


def test_an_answer_in_json_has_null_for_what_is_no_number():
    assert json.loads(answer_json(ANSWER)) == [
        {"name": "=1+1", "value": 0.123456789},
        {"name": None, "value": None},
        {"name": "-x", "value": 7},
    ]


def test_an_answer_as_a_table_has_six_digits_and_nothing_for_null():
    table = answer_table(ANSWER)
    assert [str(cell) for cell in table.columns[0].cells] == ["=1+1", "", "-x"]
    assert [str(cell) for cell in table.columns[1].cells] == ["0.123457", "nan", "7"]
