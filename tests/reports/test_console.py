"""Runs on a terminal: in a line, and side by side."""

import io

import pytest
from rich.console import Console

from mlbench.comparison.compare import compare
from mlbench.records.run_record import RuleRecord
from mlbench.reports.comparison import comparison_rows
from mlbench.reports.console import ESTIMATE_NOTE, one_line, rule_line, table
from mlbench.reports.page import page
from mlbench.reports.precision_table import precision_table
from mlbench.reports.summary import Content, summarise
from mlbench.reports.summary_markdown import summary_markdown

FID = {"score": "FID_SCORE", "name": "range", "reference": 23.24, "lower": 23.01, "upper": 23.95, "required": True}


def printed(records):
    console = Console(width=160, file=io.StringIO())
    console.print(table(records))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("score", "is_met", "shown"),
    [(23.5, True, "FID_SCORE 23.50 in 23.01..23.95"), (24.1, False, "FID_SCORE 24.10 MISSES 23.01..23.95")],
)
def test_a_target_with_two_ends_shows_both(a_run, score, is_met, shown):
    targets = [FID | {"value": score, "is_met": is_met}]
    accuracy = {"scores": {"FID_SCORE": score}, "targets": targets, "line": "", "is_met": is_met}
    assert f" {shown}  [" in one_line(a_run(accuracy=accuracy))


def test_a_target_with_one_end_shows_it(a_run):
    assert " acc 98.99 >= 98.00  [" in one_line(a_run())


def in_plugins_scenario(a_run, loadgen, **facts):
    """Return a run with a p99 of 2.29 s in a scenario of a plugin, on LoadGen's of this name."""
    known = a_run(scenario=loadgen).scenario_facts.model_dump()
    return a_run(scenario="Spikes", scenario_facts={**known, **facts})


def test_a_latency_stands_in_the_table_where_the_scenario_has_one(a_run):
    assert "2.29 s" in printed([in_plugins_scenario(a_run, "Server")])
    assert "2.29 s" not in printed([in_plugins_scenario(a_run, "Offline")])


def test_an_estimate_is_named_by_the_percentile_of_its_scenario(a_run):
    latency = {"90.00_percentile_latency": 1_500_000, "97.00_percentile_latency": 1_900_000}
    result = {"value": 2e6, "unit": "ns", "higher_is_better": False, "latency_ns": latency, "counts": {}}
    estimate = in_plugins_scenario(a_run, "SingleStream", percentile=0.97).model_dump() | {"result": result}
    assert "2.00 ms est. p97 (p97 1.90 ms)" in one_line(a_run(**estimate))
    estimate["scenario_facts"]["has_estimate"] = False
    assert "2.00 ms, valid" in one_line(a_run(**estimate))


DICE = {"score": "DICE", "name": "99", "reference": 0.8617, "lower": 0.85308, "upper": None, "required": True}


def scored(a_run, target, value, is_met):
    """A run with one target, a score and the rule about it."""
    limit = target["lower"] if target["upper"] is None else f"{target['lower']} .. {target['upper']}"
    rule = {"rule": f"accuracy.{target['score']}", "measured": value, "limit": limit, "unit": "", "passed": is_met}
    rule |= {"fix": "Try fp32.", "source": "", "kind": "accuracy", "required": True}
    verdict = {"rules": [rule], "not_applied": {}, "is_valid": True, "is_accurate": is_met, "is_conformant": False}
    targets = [target | {"value": value, "is_met": is_met}]
    accuracy = {"scores": {target["score"]: value}, "targets": targets, "line": "", "is_met": is_met}
    return a_run(accuracy=accuracy, verdict=verdict)


NARROW = [
    (DICE, 0.8531, True, "DICE 0.85310 >= 0.85308"),
    (DICE, 0.8530, False, "DICE 0.8530 MISSES 0.8531"),
    (DICE, 0.853079999, False, "DICE 0.853079999 MISSES 0.853080000"),
    (DICE, 0.9, True, "DICE 0.90 >= 0.85"),
    (DICE | {"lower": 0.86, "reference": 0.86}, 0.8591, False, "DICE 0.859 MISSES 0.860"),
    (DICE | {"lower": 0.00002}, 0.00001, False, "DICE 0.000010 MISSES 0.000020"),
    (FID, 23.0099, False, "FID_SCORE 23.0099 MISSES 23.0100..23.9500"),
    (FID, 23.9501, False, "FID_SCORE 23.9501 MISSES 23.0100..23.9500"),
]


@pytest.mark.parametrize(("target", "value", "is_met", "shown"), NARROW, ids=lambda value: str(value)[-40:])
def test_a_score_near_its_target_has_the_digits_that_decide(a_run, target, value, is_met, shown):
    run = scored(a_run, target, value, is_met)
    assert f" {shown}  [" in one_line(run)
    assert shown in printed([run]).replace("\n", " ")


@pytest.mark.parametrize(
    ("measured", "limit", "unit", "shown"),
    [
        (0.8530799, 0.85308, "", "0.8530799, limit 0.85308"),
        (23.0099999, "23.01 .. 23.95", "", "23.0099999, limit 23.01 .. 23.95"),
        (100_000_400, 100_000_000, "ns", "100.0004 ms, limit 100.0000 ms"),
        (70_000_000, 50_000_000, "ns", "70.0 ms, limit 50.0 ms"),
        (100, 100, "queries", "100 queries, limit 100 queries"),
        (None, 0.85308, "", "not in the log, limit 0.85308"),
        ("INVALID", "VALID", "", "INVALID, limit VALID"),
        (False, True, "", "False, limit True"),
    ],
)
def test_a_rules_line_has_the_digits_that_decide(measured, limit, unit, shown):
    rule = {"rule": "r", "measured": measured, "limit": limit, "unit": unit, "passed": True, "fix": "", "source": ""}
    record = RuleRecord.model_validate(rule | {"kind": "performance", "required": True})
    assert rule_line(record) == f"ok   r: {shown}"


def test_a_page_and_its_markdown_show_a_near_miss_as_one(a_run):
    summary = summarise({"": [scored(a_run, DICE, 0.853079999, False)]})
    text = summary_markdown(Content(title="nightly", summary=summary))
    assert "accuracy.DICE: 0.853079999, limit 0.85308." in text
    assert "DICE 0.853079999 (target 0.853080000" in text
    (row,) = [row for row in precision_table([summary.runs[0]]).columns if str(row.header) == "score"]
    assert [str(cell) for cell in row.cells] == ["0.853079999"]


def test_a_comparison_shows_a_score_that_fell_by_little_as_fallen(a_run):
    base, new = (scored(a_run, DICE, value, is_met) for value, is_met in ((0.85308, True), (0.853079999, False)))
    rows = comparison_rows(compare([base], [new.model_copy(update={"run_id": "new"})]))
    assert ("0.853080000", "0.853079999") in [(row[2], row[3]) for row in rows]


def streamed(a_run, scenario, value_ns):
    latency_ns = {"90.00_percentile_latency": 60_000_000, "99.00_percentile_latency": 80_000_000}
    latency_ns |= {"99.00_percentile_per_query_latency": 87_000_000}
    result = {"value": value_ns, "unit": "ns", "higher_is_better": False, "latency_ns": latency_ns, "counts": {}}
    return a_run(scenario=scenario, result=result)


@pytest.mark.parametrize(
    ("scenario", "both"),
    [("MultiStream", "865 ms est. p99 (p99 87.0 ms)"), ("SingleStream", "865 ms est. p90 (p90 60.0 ms)")],
)
def test_an_early_stopping_estimate_is_named_and_stands_beside_the_percentile(a_run, scenario, both):
    run = streamed(a_run, scenario, 865_000_000)
    assert f" fp32: {both}, valid" in one_line(run)
    assert f"result    {both}, valid" in page(run)
    text = printed([run])
    assert both.partition(" (")[0] in text
    assert "est.: LoadGen's early-stopping estimate of that percentile" in text
    markdown = summary_markdown(Content(title="", summary=summarise({"": [run]})))
    assert both.partition(" (")[0] in markdown
    assert ESTIMATE_NOTE in markdown


def test_what_is_no_estimate_is_not_called_one(a_run):
    for run in (a_run(), streamed(a_run, "MultiStream", None)):
        assert "est." not in one_line(run) + page(run) + printed([run])


def test_an_imported_run_is_marked_and_others_have_no_column_for_it(a_run, imported):
    text = printed([a_run(), a_run(imported=imported)])
    assert "origin" in text
    assert text.count("imported") == 1
    assert "origin" not in printed([a_run()])
