"""The table and the chart of a comparison of stored runs: columns, intervals and what is left out of them."""

import dataclasses
import io
import json
from xml.etree import ElementTree

import pytest
from rich.console import Console

from mlbench.comparison.compare import compare
from mlbench.records.run_record import SettingRecord
from mlbench.reports.comparison import (
    both_names,
    comparison_json,
    comparison_markdown,
    comparison_notes,
    comparison_rows,
    comparison_table,
    print_comparison,
)
from mlbench.reports.html.results import comparison_rows_table
from mlbench.reports.html.run_charts import comparison_figure

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999)
WIDE = 400


@pytest.fixture
def nights(stored_run):
    """Return five runs of each of some stored runs, a night apart, as many times as fast as they were."""

    def nights(*names, first=0, speed=1.0, **changes):
        runs = []
        for place, name in enumerate(names):
            for number, factor in enumerate(NOISE):
                run = stored_run(name, first + number, **changes)
                faster = factor * speed if run.result.higher_is_better else 1 / (factor * speed)
                value = run.result.value * faster
                latency_ns = {key: round(ns / factor / speed) for key, ns in run.result.latency_ns.items()}
                result = run.result.model_copy(update={"value": value, "latency_ns": latency_ns})
                runs.append(run.model_copy(update={"result": result, "run_id": f"run-{first + number}-{place}"}))
        return runs

    return nights


OFFLINE, SERVER, STREAM = (f"resnet50-pytorch-{name}" for name in ("Offline", "Server", "SingleStream"))


@pytest.fixture
def slower(nights):
    """Return a comparison of the stored Offline runs with ones of 80 % of their speed."""
    return compare(nights(OFFLINE), nights(OFFLINE, first=9, speed=0.8))


def columns_of(table):
    return {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}


def printed(comparison, width):
    """Return what a terminal of so many columns shows, line by line."""
    file = io.StringIO()
    Console(width=width, file=file).print(comparison_table(comparison, width))
    return file.getvalue().splitlines()


def test_a_row_has_both_speeds_their_ratio_and_its_interval(slower):
    """684.592 by the noise's geometric mean of 1.0004 is 685; 80 % of it is 548."""
    throughput, score = comparison_rows(slower)
    assert throughput[:5] == (
        "resnet50 pytorch Offline fp32",
        "throughput, 5 and 5 runs",
        "685 samples/s",
        "548 samples/s",
        "x 0.800",
    )
    low, high = map(float, throughput[5].split(" to "))
    assert 0.7 < low < 0.8 < high < 0.9
    assert low * high == pytest.approx(0.8**2, rel=0.01), "as far below as above, in ratios"
    assert throughput[-1] == "slower"
    assert score[1:5] == ("acc", "98.994", "98.994", "+0.0%")


def test_half_the_latency_is_a_change_of_two(nights):
    found = compare(nights(STREAM), nights(STREAM, first=9, speed=2.0))
    latency, _ = comparison_rows(found)
    assert latency[1:5] == ("latency, 5 and 5 runs", "52.3 ms", "26.2 ms", "x 2.000")
    assert latency[-1] == "faster"


def test_a_server_run_is_compared_by_its_latency_and_not_by_the_rate_that_was_sent(nights):
    """59.076 ms, and 1.25 times as long: 73.8 ms; the rate that was sent is the same."""
    found = compare(nights(SERVER), nights(SERVER, first=9, speed=0.8))
    latency, _ = comparison_rows(found)
    assert latency[1:5] == ("99th percentile latency, 5 and 5 runs", "59.1 ms", "73.8 ms", "x 0.800")


def test_single_runs_have_a_ratio_and_no_interval(stored_run):
    found = compare([stored_run(OFFLINE)], [stored_run(OFFLINE, 1, 342.296)])
    row, _ = comparison_rows(found)
    assert row[1:] == ("throughput", "685 samples/s", "342 samples/s", "x 0.500", "unknown", "", "cannot tell")
    assert [cell.text for cell in comparison_rows_table(found).rows[0]] == list(row)
    assert json.loads(comparison_json(found))["cells"][0]["speeds"][0]["effect"]["high"] is None


def test_an_invalid_run_is_left_out_of_the_numbers_and_named(stored_run):
    late = stored_run("resnet50-pytorch-Server-late", 2)
    found = compare([stored_run(SERVER)], [stored_run(SERVER, 1), late])
    row, _ = comparison_rows(found)
    assert row[1:4] == ("99th percentile latency", "59.1 ms", "59.1 ms")
    (cell,) = found.cells
    assert len(cell.set_aside) == 1
    assert late.run_id in cell.set_aside[0]
    assert "INVALID" in cell.set_aside[0]


def test_a_fact_that_differs_in_some_of_the_runs_is_said_of_these(nights):
    settings = {"execution.batch": SettingRecord(value=8, layer="suite")}
    other = [run.model_copy(update={"settings": settings}) for run in nights(OFFLINE, first=9)]
    base, same = nights(OFFLINE, STREAM), nights(STREAM, first=9)
    some = compare(base, [*other, *same], across=("settings",))
    differs = 'settings differs: none, then {"execution.batch": 8}.'
    assert f"resnet50 pytorch Offline fp32: {differs}" in comparison_notes(some)
    assert differs in comparison_notes(compare(base[:5], other, across=("settings",)))


def test_a_wide_table_has_every_column_and_narrower_ones_lose_detectable_then_the_interval_then_the_sides(nights):
    found = compare(nights(OFFLINE, STREAM), nights(OFFLINE, STREAM, first=9, speed=0.8))
    wide = columns_of(comparison_table(found, WIDE))
    assert list(wide) == ["runs", "measure", "base", "new", "change", "interval", "detectable", "verdict"]
    left_out = {frozenset(set(wide) - set(columns_of(comparison_table(found, width)))) for width in range(WIDE, 40, -1)}
    fewer = ({"detectable"}, {"detectable", "interval"}, {"detectable", "interval", "base", "new"})
    assert left_out == {frozenset(), *map(frozenset, fewer)}


def test_a_name_is_whole_where_there_is_room_and_else_its_words_in_common_are_the_title(nights):
    found = compare(nights(OFFLINE, STREAM), nights(OFFLINE, STREAM, first=9, speed=0.8))
    wide = comparison_table(found, WIDE)
    assert wide.title is None
    assert columns_of(wide)["runs"][0] == "resnet50 pytorch Offline fp32"
    narrow = comparison_table(found, 100)
    assert str(narrow.title) == "resnet50 pytorch fp32"
    assert columns_of(narrow)["runs"] == ["Offline", "", "SingleStream", ""]


def test_names_that_are_the_same_throughout_need_no_column_when_it_is_narrow(slower):
    narrow = comparison_table(slower, 90)
    assert str(narrow.title) == "resnet50 pytorch Offline fp32"
    assert "runs" not in columns_of(narrow)


def test_no_line_is_wider_than_the_terminal_and_the_verdict_is_never_cut(slower):
    for width in (120, 100, 80):
        lines = printed(slower, width)
        assert max(map(len, lines)) <= width
        assert any("slower" in line for line in lines)


@pytest.fixture
def across_backends(nights):
    """Return a comparison of two backends in two scenarios."""
    other = nights(OFFLINE, STREAM, first=9, speed=0.8, backend="onnxruntime")
    return compare(nights(OFFLINE, STREAM), other, across=["backend"])


@pytest.mark.parametrize("width", [80, 120, WIDE])
def test_both_backends_are_named_at_any_width(across_backends, width):
    lines = printed(across_backends, width)
    assert max(map(len, lines)) <= width
    assert any("pytorch->onnxruntime" in line for line in lines)


def test_the_pages_of_a_comparison_of_backends_name_both(across_backends):
    names = [row[0] for row in comparison_rows(across_backends)]
    assert names[0] == "resnet50 pytorch->onnxruntime Offline fp32"
    assert names[0] in comparison_markdown(across_backends, title="two").replace("\\", "")
    assert comparison_rows_table(across_backends).rows[0][0].text == names[0]


def test_names_of_different_lengths_are_both_whole(across_backends):
    cell = dataclasses.replace(across_backends.cells[0], base_name="bert pytorch Offline fp32 other")
    assert both_names(cell) == "bert pytorch Offline fp32 other -> resnet50 onnxruntime Offline fp32"


@pytest.mark.parametrize(("speed", "style"), [(0.8, "red"), (1.0, ""), (1.25, "")])
def test_only_a_loss_is_red(nights, speed, style):
    table = comparison_table(compare(nights(OFFLINE), nights(OFFLINE, first=9, speed=speed)), WIDE)
    assert [str(row.style or "") for row in table.rows] == [style, ""]


def test_a_comparison_is_printed_with_its_counts_above_and_its_margins_below(slower, capsys):
    print_comparison(slower, 120)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "worse: 2 judged, 0 not judged"
    assert lines[-1].strip() == "Changes counted as the same: of a speed less than 5%, of a score less than 0.5%."


def drawn(comparison):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    figure = comparison_figure(comparison)
    root = ElementTree.fromstring(figure.svg)
    return figure, [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")], figure.svg


def test_a_chart_names_each_number_and_has_its_interval_in_the_table(slower):
    figure, texts, _ = drawn(slower)
    ((name, ratio, interval, verdict),) = [[cell.text for cell in row] for row in figure.numbers.rows]
    assert (name, ratio, verdict) == ("resnet50 pytorch Offline fp32, throughput", "x 0.800", "slower")
    assert interval == next(comparison_rows(slower))[5]
    assert name in texts
    assert "Within the band of 5% a change counts as the same." in figure.note


def test_a_chart_is_around_one_and_reaches_as_far_as_the_largest_change(stored_run, slower):
    """A ratio of 0.8 needs ticks between 0.8 and 1.25; one of ten leaves the crowded ones around 1 out."""
    assert {"0.8", "1", "1.25"} <= set(drawn(slower)[1])
    far = compare([stored_run(OFFLINE)], [stored_run(OFFLINE, 1, 6845.92)])
    ticks = set(drawn(far)[1])
    assert {"0.1", "0.2", "0.5", "1", "2", "5", "10"} <= ticks
    assert {"0.8", "0.9", "1.1", "1.25"}.isdisjoint(ticks)


def test_a_ratio_without_an_interval_has_a_point_and_no_line(stored_run, slower):
    single = compare([stored_run(OFFLINE)], [stored_run(OFFLINE, 1, 500.0)])
    lines = [drawn(each)[2].count('stroke-width="2"') for each in (slower, single)]
    assert lines[0] > lines[1]


def test_without_a_number_on_both_sides_there_is_no_chart(stored_run):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    assert comparison_figure(compare([stored_run(SERVER)], [stored_run("resnet50-pytorch-Server-late", 1)])) is None


def test_a_score_that_fell_is_red_too(nights):
    new = nights(OFFLINE, first=9)
    accuracy = new[0].accuracy.model_copy(
        update={"targets": (new[0].accuracy.targets[0].model_copy(update={"value": 90.0, "is_met": False}),)}
    )
    fallen = [run.model_copy(update={"accuracy": accuracy.model_copy(update={"is_met": False})}) for run in new]
    table = comparison_table(compare(nights(OFFLINE), fallen), WIDE)
    assert columns_of(table)["verdict"][1] == "less accurate"
    assert [str(row.style or "") for row in table.rows] == ["", "red"]
