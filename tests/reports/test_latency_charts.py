"""What the charts of latencies say in numbers: which percentiles, of which times, against which limit."""

import pytest

from mlbench.reports.html.drawing import Palette
from mlbench.reports.html.latency_charts import (
    FIRST_TOKEN,
    PER_TOKEN,
    QUERY,
    SAMPLE,
    latency_figures,
    load_figures,
    percentiles_of,
)
from mlbench.reports.summary import summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")


def figures(*runs):
    summary = summarise({"": runs})
    return latency_figures(summary.combinations, Palette(summary.series))


def cells(figure):
    return [[cell.text for cell in row] for row in figure.numbers.rows]


def with_latencies(run, **latency_ns):
    return run.model_copy(update={"result": run.result.model_copy(update={"latency_ns": latency_ns})})


def with_limits(run, **limits):
    return run.model_copy(update={"limits": {**run.limits, **limits}})


def test_percentiles_rise_and_begin_with_the_least(a_server_run):
    found = percentiles_of(a_server_run(), SAMPLE)
    assert [*found] == [0.0, 50.0, 90.0, 95.0, 97.0, 99.0, 99.9]
    assert [*found.values()] == sorted(found.values())
    logged = a_server_run().result.latency_ns
    assert (found[0.0], found[99.0]) == (logged["min_latency"], logged["99.00_percentile_latency"])


def test_each_time_has_percentiles_of_its_own(a_token_run):
    logged = a_token_run.result.latency_ns
    assert percentiles_of(a_token_run, FIRST_TOKEN)[99.0] == logged["first_token_99.00_percentile_latency"]
    assert percentiles_of(a_token_run, PER_TOKEN)[99.0] == logged["time_per_output_token_99.00_percentile"]
    assert percentiles_of(a_token_run, QUERY) == {}


def test_a_percentile_of_no_time_is_left_out(a_server_run):
    run = with_latencies(a_server_run(), **{"50.00_percentile_latency": 0, "90.00_percentile_latency": 7})
    assert percentiles_of(run, SAMPLE) == {90.0: 7}


def test_a_run_without_a_result_has_none(a_server_run):
    assert percentiles_of(a_server_run().model_copy(update={"result": None}), SAMPLE) == {}


def test_a_server_run_is_drawn_with_the_limit_that_was_in_force(a_server_run):
    (figure,) = figures(a_server_run())
    assert figure.title == "Server: latency"
    assert a_server_run().limits["server_latency_ms"] == 100
    assert figure.note.endswith("The dashed line is the limit at p99, 100 ms.")
    assert [column.heading for column in figure.numbers.columns][:2] == ["series", "least"]


def test_the_numbers_are_those_of_the_log_in_the_unit_that_suits_them(a_server_run):
    run = with_latencies(
        a_server_run(),
        **{"min_latency": 900, "50.00_percentile_latency": 1_500_000, "99.00_percentile_latency": 2 * 10**9},
    )
    (figure,) = figures(run)
    assert [row[1:] for row in cells(figure)] == [["900 ns", "1.50 ms", "2.00 s"]]


def test_a_series_that_lacks_a_percentile_has_a_dash(a_server_run):
    one = with_latencies(a_server_run(1), **{"50.00_percentile_latency": 10, "99.00_percentile_latency": 20})
    other = with_latencies(a_server_run(2, backend="other"), **{"50.00_percentile_latency": 30})
    (figure,) = figures(one, other)
    assert sorted(row[1:] for row in cells(figure)) == [["10.0 ns", "20.0 ns"], ["30.0 ns", "-"]]


@pytest.mark.parametrize(
    "limits", [(15.0, 20.0), (None, None), (0, 0)], ids=["runs differ in it", "there is none", "it binds nothing"]
)
def test_where_no_one_limit_binds_no_line_is_drawn(a_server_run, limits):
    one, other = (
        with_limits(a_server_run(number, backend=f"b{number}"), server_latency_ms=limit)
        for number, limit in enumerate(limits)
    )
    (figure,) = figures(one, other)
    assert figure.note.endswith("Lower is better.")


def test_one_query_of_all_samples_has_no_latency_to_draw(a_server_run):
    assert figures(a_server_run(scenario="Offline")) == []


def test_a_query_of_several_samples_is_drawn_by_query(a_server_run):
    (figure,) = figures(a_server_run(scenario="MultiStream"))
    assert figure.title == "MultiStream: latency of a query"
    assert "limit" not in figure.note


def test_a_language_run_is_drawn_by_the_times_that_it_is_judged_by(a_token_run):
    titles = [figure.title for figure in figures(a_token_run)]
    assert titles == ["Server: latency", "Server: time to first token", "Server: time per output token"]
    _, first, each = figures(a_token_run)
    assert f"{a_token_run.limits['ttft_ms'] / 1000:.2f} s." in first.note
    assert f"{a_token_run.limits['tpot_ms']:.0f} ms." in each.note


def test_the_newest_run_of_a_combination_is_drawn(a_server_run):
    old, new = (
        with_latencies(a_server_run(number), **{"99.00_percentile_latency": ns}) for number, ns in ((1, 10), (2, 20))
    )
    (figure,) = figures(new, old)
    assert [row[1:] for row in cells(figure)] == [["20.0 ns"]]


def test_a_table_of_the_newest_of_several_runs_says_so_and_which_it_is(a_server_run):
    (figure,) = figures(*(a_server_run(number) for number in range(4)))
    ((first, *_),) = figure.numbers.rows
    assert figure.numbers.caption == "Server: latency, percentiles of the newest run of each series"
    assert (first.text, first.detail) == ("pytorch fp32", "0003, newest of 4 runs")
    assert figure.note.endswith("For repeats, the newest run is shown.")


def test_a_single_run_is_called_no_repeat(a_server_run):
    (figure,) = figures(a_server_run())
    assert figure.numbers.rows[0][0].detail == ""
    assert "newest" not in figure.note


def test_audits_have_rows_of_their_own_beside_the_run_that_they_repeat(a_server_run):
    audits = [
        a_server_run(number, audit={"test": test, "of": "20261101-run-0001"})
        for number, test in ((2, "TEST01"), (3, "TEST04"))
    ]
    (figure,) = figures(a_server_run(1), *audits)
    names = {row[0] for row in cells(figure)}
    assert names == {"pytorch fp32", "pytorch fp32 TEST01 of 0001", "pytorch fp32 TEST04 of 0001"}


def test_valid_runs_of_all_rates_are_in_the_chart_of_throughput_and_the_others_are_counted(a_server_run, stored_run):
    late = stored_run("resnet50-pytorch-Server-late", 9)
    summary = summarise({"": [a_server_run(1), a_server_run(2, 200.0), a_server_run(3, 300.0), late]})
    (figure,) = load_figures(summary.combinations, Palette(summary.series))
    assert sorted(row[1] for row in cells(figure)) == ["0001", "0002", "0003"]
    assert "Each point is a valid run. 1 of 4 runs have no point: they are INVALID" in figure.note
