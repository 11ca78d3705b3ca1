"""The summary of a set of runs, as a sentence, a table and Markdown."""

from pathlib import Path

import pytest

from mlbench import BatchStatistics, GenerationStatistics
from mlbench.reports.console import one_line
from mlbench.reports.page import page
from mlbench.reports.summary import Content, headline, summarise
from mlbench.reports.summary_markdown import summary_markdown

STORED = sorted(file.stem for file in (Path(__file__).parents[1] / "data" / "records").glob("*.json"))


def summary_of(*runs):
    return summarise({"": runs})


def test_one_good_run_is_said_to_be_valid_and_accurate(a_server_run):
    assert headline(summary_of(a_server_run())) == "The run is valid and accurate."


def test_one_bad_run_is_said_to_be_what_it_is(a_late_run, a_failure):
    assert headline(summary_of(a_late_run())) == "The run does not count: INVALID."
    assert headline(summary_of(a_failure)) == "The run does not count: failed."


def test_runs_that_do_not_count_are_counted_by_kind(a_server_run, a_late_run, a_failure):
    verdict = {"rules": [], "not_applied": {}, "is_valid": True, "is_accurate": False, "is_conformant": False}
    runs = [a_server_run(1), a_late_run(number=2), a_failure, a_server_run(3, verdict=verdict)]
    assert headline(summary_of(*runs)) == ("3 of 4 runs do not count: 1 failed, 1 INVALID, 1 valid but not accurate.")


def test_unscored_runs_are_not_called_accurate(a_server_run):
    verdict = {"rules": [], "not_applied": {}, "is_valid": True, "is_accurate": None, "is_conformant": False}
    unscored = a_server_run(1, verdict=verdict, accuracy=None)
    assert headline(summary_of(unscored)) == "The run is valid; accuracy was not measured."
    assert headline(summary_of(unscored, a_server_run(2))) == ("All 2 runs are valid; accuracy was not measured in 1.")


def test_repeats_make_one_combination_with_their_median_and_range(a_server_run):
    (found,) = summary_of(
        *(a_server_run(number, value) for number, value in enumerate([400.0, 500.0, 800.0]))
    ).combinations
    assert found.middle() == "500 samples/s"
    assert found.spread() == "400 to 800 samples/s, 3 runs"


def test_a_range_over_two_units_names_both(a_server_run):
    def latency(number, value):
        run = a_server_run(number)
        result = run.result.model_dump() | {"value": value, "unit": "ns", "higher_is_better": False}
        return a_server_run(number, scenario="SingleStream", result=result)

    (found,) = summary_of(latency(0, 700_000.0), latency(1, 2_000_000.0)).combinations
    assert found.spread() == "700 us to 2.00 ms, 2 runs"


def test_a_run_that_does_not_count_is_in_no_median(a_server_run, a_late_run):
    (found,) = summary_of(a_server_run(0, 500.0), a_late_run(number=1, value=9000.0)).combinations
    assert found.middle() == "500 samples/s"
    assert found.bad == (found.runs[1],)


def test_without_a_run_that_counts_the_newest_says_how_it_ended(a_failure, a_late_run, a_server_run):
    nothing = a_server_run().result.model_dump() | {"value": None}
    runs = [a_failure, a_late_run(), a_server_run(result=nothing)]
    endings = [summary_of(run).combinations[0].middle() for run in runs]
    assert endings == ["crash during warm-up", "INVALID", "no result"]


def test_a_run_named_twice_counts_once(a_server_run):
    assert len(summary_of(a_server_run(), a_server_run()).runs) == 1


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"tier": "dev"}, "pytorch fp32 dev"),
        ({"settings": {"execution.batch": {"value": 4, "layer": "command line"}}}, "pytorch fp32 execution.batch=4"),
        ({"precision": "int8"}, "pytorch int8"),
    ],
    ids=str,
)
def test_a_series_is_named_by_what_tells_it_from_the_others(a_server_run, changes, label):
    series = summary_of(a_server_run(0), a_server_run(1, **changes)).series
    assert len(series) == 2
    assert series[1] == label


def test_sides_of_a_comparison_stay_apart(a_server_run):
    summary = summarise({"base": [a_server_run(0)], "new": [a_server_run(1)]})
    assert summary.series == ("pytorch fp32 base", "pytorch fp32 new")


def test_markdown_says_the_verdict_the_fix_and_that_it_is_no_mlperf_result(a_server_run, a_late_run):
    text = summary_markdown(Content(title="nightly", summary=summary_of(a_server_run(0), a_late_run(number=1))))
    assert text.startswith("# nightly\n\n**1 of 2 runs does not count: 1 INVALID.**\n")
    assert "latency_limit: 3.42 s, limit 100 ms. Lower load.target_qps below 400, or answer within 100 ms." in text
    header, rule, row = (line for line in text.splitlines() if line.startswith("|"))
    assert header.count("|") == rule.count("|") == row.count("|")
    assert "18.5 samples/s" in row
    assert "not reviewed by MLCommons" in text


def test_markdown_takes_hostile_names_as_text(a_server_run):
    text = summary_markdown(Content(title="a | <b>", summary=summary_of(a_server_run(workload="x|<script>"))))
    assert "<" not in text
    assert r"x\|&lt;script>" in text


@pytest.mark.parametrize("name", STORED)
def test_every_stored_run_has_a_line_a_page_and_a_row(stored_run, name):
    run = stored_run(name)
    assert f"{run.workload} {run.backend} {run.scenario}" in one_line(run)
    assert page(run).startswith(f"{run.workload} on {run.backend} ({run.precision}, {run.scenario})")
    assert run.workload in summary_markdown(Content(title="", summary=summary_of(run)))


@pytest.mark.parametrize(
    ("workload", "engine"),
    [
        ("resnet50", BatchStatistics),
        ("retinanet", BatchStatistics),
        ("3d-unet", BatchStatistics),
        ("bert", BatchStatistics),
        ("dlrm-v2", BatchStatistics),
        ("stable-diffusion-xl", BatchStatistics),
        ("gptj", GenerationStatistics),
        ("llama2-70b", GenerationStatistics),
        ("mixtral-8x7b", GenerationStatistics),
    ],
)
def test_a_run_of_each_workload_is_stored_on_an_engine_of_its_kind(stored_run, workload, engine):
    runs = [run for run in map(stored_run, STORED) if run.workload == workload and run.backend != "endpoint"]
    assert runs
    assert all(type(run.engine) is engine for run in runs)
