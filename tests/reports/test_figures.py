"""What the charts of a report are drawn from."""

from xml.etree import ElementTree

import pytest

from mlbench.comparison.compare import compare
from mlbench.reports.html.conditions import (
    details_of,
    machines_table,
    notes_on_published,
    spread_line,
    work_notes,
    work_table,
)
from mlbench.reports.html.drawing import Palette, ticks_between
from mlbench.reports.html.latency_charts import latency_figures, load_figures
from mlbench.reports.html.results import results_table
from mlbench.reports.html.run_charts import comparison_figure, history_figures
from mlbench.reports.html.work_charts import accuracy_figure, occupancy_figure, sweep_figure
from mlbench.reports.summary import summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")


def drawn_of(*runs):
    """Return combinations and their palette."""
    summary = summarise({"": runs})
    return summary.combinations, Palette(summary.series)


def rows_of(figure):
    return [[cell.text for cell in row] for row in figure.numbers.rows]


def headings_of(figure):
    return [column.heading for column in figure.numbers.columns]


def marks_of(figure):
    """Return what the chart tells of each of its marks."""
    root = ElementTree.fromstring(figure.svg)
    marks = [each for each in root.iter() if each.get("role") == "graphics-symbol"]
    return [each.get("aria-label") for each in marks if each.get("aria-roledescription") != "axis"]


def texts_of(figure):
    return [each.text for each in ElementTree.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")]


def test_latencies_are_the_logged_percentiles_and_the_limit(a_server_run):
    (figure,) = latency_figures(*drawn_of(a_server_run()))
    assert headings_of(figure) == ["series", "least", "p50", "p90", "p95", "p97", "p99", "p99.9"]
    assert rows_of(figure) == [
        ["pytorch fp32", "3.70 ms", "19.4 ms", "39.0 ms", "47.4 ms", "51.8 ms", "59.1 ms", "78.1 ms"]
    ]
    assert marks_of(figure) == [
        "pytorch fp32: p50 19.4 ms",
        "pytorch fp32: p90 39.0 ms",
        "pytorch fp32: p95 47.4 ms",
        "pytorch fp32: p97 51.8 ms",
        "pytorch fp32: p99 59.1 ms",
        "pytorch fp32: p99.9 78.1 ms",
    ]
    assert "limit 100 ms" in texts_of(figure)
    assert {"p50", "p90", "p99", "p99.9"} <= set(texts_of(figure))


def test_multistream_shows_latencies_of_queries_not_of_samples(a_server_run):
    run = a_server_run()
    queries = {"99.00_percentile_per_query_latency": 7_000_000, "50.00_percentile_per_query_latency": 6_000_000}
    result = run.result.model_dump() | {"latency_ns": {**run.result.latency_ns, **queries}}
    (figure,) = latency_figures(*drawn_of(a_server_run(scenario="MultiStream", result=result)))
    assert rows_of(figure) == [["pytorch fp32", "6.00 ms", "7.00 ms"]]


def test_offline_has_no_latency_chart(a_server_run):
    assert latency_figures(*drawn_of(a_server_run(scenario="Offline"))) == []


def test_a_language_workload_shows_first_token_and_time_per_token_with_their_limits(a_token_run):
    figures = {figure.title: figure for figure in latency_figures(*drawn_of(a_token_run))}
    first, per_token = figures["Server: time to first token"], figures["Server: time per output token"]
    assert [rows_of(figure) for figure in (first, per_token)] == [
        [["onnxruntime fp32", "1.66 ms", "4.05 ms", "8.28 ms", "9.86 ms", "10.7 ms", "12.4 ms", "15.8 ms"]],
        [["onnxruntime fp32", "7.71 us", "1.36 ms", "2.84 ms", "3.43 ms", "3.83 ms", "4.31 ms", "4.83 ms"]],
    ]
    assert "limit 2.00 s" in texts_of(first)
    assert "limit 200 ms" in texts_of(per_token)


def test_slots_prompts_and_waiting_of_a_language_workload_are_reported(a_token_run):
    combinations, palette = drawn_of(a_token_run)
    figure = occupancy_figure(combinations, palette, "Server")
    bins = ["1", "2", "3\N{EN DASH}4", "5\N{EN DASH}8", "9\N{EN DASH}16", "17\N{EN DASH}32"]
    assert headings_of(figure) == ["series", *bins]
    shares = [
        "14.2 %",
        "15.6 %",
        "20.2 %",
        "31.4 %",
        "17.3 %",
        "1.35 %",
    ]  # 463, 509, 661, 1,028, 566, 44 of 3,271 steps
    assert rows_of(figure) == [["onnxruntime fp32", *shares]]
    table = work_table(combinations)
    shown = dict(zip([column.heading for column in table.columns], table.rows[0], strict=True))
    assert shown["useful work"].text == "prefill 96.8 %, decode 81.0 %"  # 22,904 of 23,664, 17,184 of 21,223
    assert shown["wait for a slot"].text == "1.25 ms"  # 0.63991 s over 512 samples
    assert shown["mean batch"].text == "5.25"  # 17,184 tokens in 3,271 steps


@pytest.mark.parametrize(
    "name", ["gptj-pytorch-Offline", "gptj-onnxruntime-Server", "mixtral-8x7b-onnxruntime-Offline"]
)
def test_what_every_generation_engine_counts_has_its_column(stored_run, name):
    run = stored_run(name)
    table = work_table(drawn_of(run)[0])
    shown = dict(zip([column.heading for column in table.columns], table.rows[0], strict=True))
    assert shown["useful work"].text.startswith("prefill ")
    assert shown["wait for a slot"].text.endswith(("us", "ms", " s"))


def test_batches_are_weighed_by_their_samples(a_server_run):
    figure = occupancy_figure(*drawn_of(a_server_run()), "Server")  # 696 batches of one and 71 of two
    assert rows_of(figure) == [["pytorch fp32", "83.1 %", "16.9 %"]]


def test_batches_of_one_size_need_no_chart(a_server_run):
    assert occupancy_figure(*drawn_of(a_server_run(engine={"batches_by_size": {"8": 3}})), "Server") is None


@pytest.mark.parametrize("engine", [{}, {"batches_by_size": "many"}, {"batches_by_size": {"x": 1, "2": None}}], ids=str)
def test_an_engine_that_counts_otherwise_draws_nothing(a_server_run, engine):
    combinations, palette = drawn_of(a_server_run(engine=engine))
    assert occupancy_figure(combinations, palette, "Server") is None
    assert sweep_figure(combinations, palette) is None


def test_the_sweep_shows_each_batch_size(a_server_run):
    figure = sweep_figure(*drawn_of(a_server_run()))
    assert rows_of(figure) == [["pytorch fp32", "353", "519", "243", "404"]]


def test_throughput_is_drawn_against_latency_with_the_rate_of_offline(a_server_run):
    offline = a_server_run(1, 900.0, scenario="Offline")
    (figure,) = load_figures(*drawn_of(a_server_run(0, 500.0), offline))
    assert rows_of(figure) == [["pytorch fp32", "0000", "500 samples/s", "59.1 ms"]]
    assert "pytorch fp32: Offline 900 samples/s" in marks_of(figure)


def test_runs_of_one_system_at_several_rates_make_a_curve(a_server_run):
    def at(number, rate):
        settings = {"load.target_qps": {"value": rate, "layer": "command line"}}
        return a_server_run(number, rate, settings=settings)

    offline = a_server_run(9, 900.0, scenario="Offline")
    (figure,) = load_figures(*drawn_of(at(0, 100.0), at(1, 200.0), offline))
    assert [row[0] for row in rows_of(figure)] == [f"pytorch fp32 load.target_qps={rate}" for rate in (100.0, 200.0)]
    assert "pytorch fp32: Offline 900 samples/s" in marks_of(figure)
    (curve,) = (each for each in ElementTree.fromstring(figure.svg).iter() if is_line(each))
    assert curve.get("stroke") == "var(--series-1)"
    assert not any(
        map(is_line, ElementTree.fromstring(next(load_figures(*drawn_of(at(0, 100.0), offline))).svg).iter())
    )


def is_line(element):
    return element.get("stroke", "").startswith("var(--series") and element.get("d", "").count("L") == 1


def test_a_missed_target_is_called_missed(a_server_run):
    target = a_server_run().accuracy.targets[0].model_dump() | {"value": 90.0, "is_met": False}
    accuracy = {"scores": {"acc": 90.0}, "targets": [target], "line": "", "is_met": False}
    verdict = {"rules": [], "not_applied": {}, "is_valid": True, "is_accurate": False, "is_conformant": False}
    combinations, palette = drawn_of(a_server_run(accuracy=accuracy, verdict=verdict))
    figure = accuracy_figure(combinations, palette)
    assert rows_of(figure)[0][3:] == ["90.000", "at least 98.004", "98.994", "missed"]
    (row,) = results_table(summarise({"": [combinations[0].newest]})).rows
    assert (row[2].text, row[2].tone) == ("acc 90.00", "bad")


def test_the_course_in_time_needs_three_runs_that_count(a_server_run, a_late_run):
    def offline(number, value=500.0):
        return a_server_run(number, value, scenario="Offline")

    two = [offline(0), offline(1), a_late_run(number=2, scenario="Offline")]
    assert history_figures(*drawn_of(*two), ()) == []
    (figure,) = history_figures(*drawn_of(*two, offline(3, 700.0)), ())
    assert [row[3] for row in rows_of(figure)] == ["500 samples/s", "500 samples/s", "700 samples/s"]


def test_in_server_the_course_is_of_the_latency_since_the_rate_was_asked_for(a_server_run):
    (figure,) = history_figures(*drawn_of(*map(a_server_run, range(3))), ())
    assert headings_of(figure)[-1] == "99th percentile latency"
    assert rows_of(figure)[0] == ["pytorch fp32", "2026-11-01 00:00:00", "0000", "59.1 ms"]


def test_steps_are_marked_in_the_course(a_server_run):
    drawn = drawn_of(*map(a_server_run, range(4)))
    marked, plain = (history_figures(*drawn, steps)[0] for steps in ({"run-0002", "another"}, ()))
    assert set(marks_of(marked)) - set(marks_of(plain)) == {"pytorch fp32, step at 2026-11-03 00:00"}


def test_a_comparison_is_drawn_with_its_intervals(a_server_run):
    base = [a_server_run(n, v, scenario="Offline") for n, v in enumerate([100.0, 101.0, 99.0, 100.0, 100.0])]
    new = [a_server_run(n + 9, v, scenario="Offline") for n, v in enumerate([80.0, 81.0, 79.0, 80.0, 80.0])]
    figure = comparison_figure(compare(base, new))
    (row,) = rows_of(figure)
    assert (row[1], row[3]) == ("x 0.800", "slower")
    assert "resnet50 pytorch Offline fp32, throughput: x 0.800, slower" in marks_of(figure)


def test_a_ratio_of_single_runs_has_no_interval_to_draw(a_server_run):
    figure = comparison_figure(compare([a_server_run(0, scenario="Offline")], [a_server_run(1, scenario="Offline")]))
    assert rows_of(figure)[0][2] == "unknown"


def test_unmeasured_costs_take_no_column_and_energy_that_was_measured_does(a_server_run):
    without = [column.heading for column in work_table(drawn_of(a_server_run())[0]).columns]
    assert without == ["backend", "scenario", "overhead", "mean batch", "useful work", "peak memory"]
    energy = {
        "joules": 50.0,
        "seconds": 10.0,
        "source": "RAPL",
        "covers": "package-0",
        "leaves_out": "memory",
        "joules_per_sample": 0.25,
    }
    cell = work_table(drawn_of(a_server_run(energy=energy))[0]).rows[0][-1]
    assert (cell.text, cell.detail) == ("0.250 J/sample", "package-0, by RAPL; without memory")


def test_the_share_of_the_roofline_and_what_was_not_measured_are_reported(a_server_run):
    roofline = {
        "device": "cpu",
        "precision": "fp32",
        "operations_per_s": 2.5e10,
        "bytes_per_s": 1e9,
        "operations_ceiling_per_s": 1e11,
        "bytes_ceiling_per_s": 2e10,
        "bound": "compute",
        "share": 0.25,
        "measured": "2026-11-21T00:00:00Z",
    }
    runs = drawn_of(a_server_run(roofline=roofline, not_measured={"energy": "powercap is readable by root only"}))[0]
    assert "25.0 %" in str(work_table(runs))
    assert work_notes(runs) == ["energy: not measured: powercap is readable by root only"]


def test_the_overhead_is_compared_with_the_median_latency(a_server_run):
    cell = work_table(drawn_of(a_server_run())[0]).rows[0][2]
    assert (cell.text, cell.detail) == ("1.34 ms", "6.93 % of median latency")


def test_machines_that_differ_stand_side_by_side_and_a_busy_hour_does_not_make_another(a_server_run, environment):
    def on(number, **changes):
        return a_server_run(number, environment=environment.model_copy(update=changes))

    table = machines_table(summarise({"": [on(0, load_average=0.1), on(1, load_average=9.0), on(2, kernel="Linux 7")]}))
    assert [column.heading for column in table.columns][1:] == [
        f"machine {environment.machine}, 2 runs",
        f"machine {environment.machine}, 1 run",
    ]
    assert "results are noisy" in next(row for row in table.rows if row[0].text == "busy")[1].text


def test_the_spread_of_repeats_is_reported(a_server_run):
    assert "by up to 25.0 %" in spread_line(summarise({"": [a_server_run(0, 400.0), a_server_run(1, 500.0)]}))
    assert "unknown" in spread_line(summarise({"": [a_server_run()]}))


def test_settings_are_shown_with_their_layer_and_defaults_are_not(a_server_run):
    settings = {
        "execution.batch": {"value": 4, "layer": "command line"},
        "execution.workers": {"value": 1, "layer": "default"},
    }
    assert details_of(a_server_run(settings=settings))["Settings that are not defaults"] == {
        "execution.batch": "4 (command line)"
    }


def test_a_mini_run_has_no_place_among_published_results_and_a_full_one_has(a_server_run):
    (note,) = notes_on_published(summarise({"": [a_server_run()]}))
    assert "mini profile" in note
    full = {"profile": "full", "tier": "valid"}
    (note,) = notes_on_published(summarise({"": [a_server_run(**full)]}))
    assert "this run, rank" in note
    assert "Not a comparison that MLCommons has reviewed" in note


def test_series_beyond_the_palette_still_differ_in_colour_or_shape():
    palette = Palette(tuple(f"series {number}" for number in range(64)))
    assert len({(palette.colour(name), palette.shape(name)) for name in palette.series}) == 64


def test_ticks_are_round_and_few():
    assert [tick for tick in ticks_between(1.5e6, 40e6) if 1.5e6 <= tick <= 40e6] == [2e6, 5e6, 10e6, 20e6]
    assert len([tick for tick in ticks_between(1e3, 1e9) if 1e3 <= tick <= 1e9]) == 7


def test_a_label_keeps_all_digits_of_a_setting(a_server_run):
    """Only places in the drawing are rounded."""
    settings = [{"load.target_qps": {"value": value, "layer": "command line"}} for value in (298.3931234, 298.3935678)]
    runs = [a_server_run(number, 100.0, settings=each) for number, each in enumerate(settings)]
    (figure,) = latency_figures(*drawn_of(*runs))
    assert "298.3931234" in figure.svg and "298.3935678" in figure.svg
