"""What is drawn of runs over time, and of a load that grows."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from mlbench.records.machine.telemetry import TelemetryRecord
from mlbench.reports.html.course_charts import course_figure
from mlbench.reports.html.drawing import Palette, ticks_between
from mlbench.reports.html.latency_charts import load_figures
from mlbench.reports.html.run_charts import _HISTORY_MOST, history_figures
from mlbench.reports.html.work_charts import accuracy_figure, occupancy_figure, sweep_figure
from mlbench.reports.summary import summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")


def drawn(*runs):
    summary = summarise({"": runs})
    return summary.combinations, Palette(summary.series)


def rows_of(figure):
    return [[cell.text for cell in row] for row in figure.numbers.rows]


@pytest.fixture
def nights(a_run):
    """Return an Offline run a night with these throughputs."""

    def nights(*values, **changes):
        return [
            a_run(
                run_id=f"run-{number:04d}",
                created=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number),
                result=a_run().result.model_dump() | {"value": value},
                **changes,
            )
            for number, value in enumerate(values)
        ]

    return nights


def test_two_runs_make_no_course_in_time_and_three_do(nights):
    assert history_figures(*drawn(*nights(1.0, 2.0)), ()) == []
    (figure,) = history_figures(*drawn(*nights(100.0, 200.0, 300.0)), ())
    assert [row[-1] for row in rows_of(figure)] == ["100 samples/s", "200 samples/s", "300 samples/s"]
    assert "Higher is better" in figure.note
    assert "dotted" not in figure.note


def test_of_a_latency_lower_is_better(a_server_run):
    figures = history_figures(*drawn(*(a_server_run(number) for number in range(3))), ())
    (figure,) = [each for each in figures if "latency" in each.title]
    assert "Lower is better" in figure.note


def test_a_step_is_marked_and_explained(nights):
    (figure,) = history_figures(*drawn(*nights(1.0, 2.0, 3.0)), ("run-0002",))
    assert "A dotted line marks the first run of a new level." in figure.note
    assert "step at 2026-01-03 00:00" in figure.svg


def test_of_a_long_history_the_newest_runs_are_drawn(nights):
    figure = history_figures(*drawn(*nights(*[100.0] * (_HISTORY_MOST + 5))), ())[0]
    shown = [row[2] for row in rows_of(figure)]
    assert (len(shown), shown[0], shown[-1]) == (200, "0005", "0204")


def test_the_ceiling_of_a_load_is_the_newest_rate_with_all_samples_at_once(a_server_run):
    old, new = (a_server_run(n, value, scenario="Offline") for n, value in ((11, 700.0), (12, 900.0)))
    runs = [a_server_run(10, value=500.0), old, new]
    (figure,) = load_figures(*drawn(*runs))
    assert "The vertical line is the throughput of its system in Offline." in figure.note
    assert "900 samples/s" in figure.svg
    assert "700 samples/s" not in figure.svg


def test_a_load_has_a_point_for_each_run_that_counts(a_server_run, a_late_run):
    runs = [a_server_run(0, value=100.0), a_server_run(1, value=200.0), a_late_run(number=2, value=300.0)]
    (figure,) = load_figures(*drawn(*runs))
    assert [row[2:] for row in rows_of(figure)] == [["100 samples/s", "59.1 ms"], ["200 samples/s", "59.1 ms"]]


def test_the_runs_of_a_curve_are_drawn_as_a_curve_alone(a_server_run):
    runs = [a_server_run(0, value=100.0), a_server_run(1, value=200.0, tag="curve")]
    (figure,) = load_figures(*drawn(*runs))
    assert [row[2] for row in rows_of(figure)] == ["100 samples/s"]
    assert list(load_figures(*drawn(*runs[1:]))) == []


def test_a_batch_size_that_nobody_tried_has_no_number(a_server_run, a_run):
    engine = a_server_run().engine
    assert dict(engine.sweep_per_s) == {1: 352.6, 2: 518.8, 4: 243.1, 8: 403.9}
    figure = sweep_figure(*drawn(a_server_run()))
    assert rows_of(figure) == [["pytorch fp32", "353", "519", "243", "404"]]
    assert sweep_figure(*drawn(a_run(engine={}))) is None


def test_how_full_batches_were_is_by_samples(a_server_run, a_late_run):
    """Batches of a run that was sent too much: 2 of 1, 2 of 21 and 1 of 26, 6 of 128: 2, 68 and 768 of 838 samples."""
    figure = occupancy_figure(*drawn(a_server_run(engine=a_late_run().engine)), "Server")
    assert rows_of(figure) == [["pytorch fp32", "0.239 %", "8.11 %", "91.6 %"]]
    assert [column.heading for column in figure.numbers.columns[1:]] == ["1", "17–32", "65–128"]


def test_a_missed_target_is_drawn_as_missed(a_run):
    accuracy = a_run().accuracy.model_dump()
    accuracy["targets"][0] |= {"value": 90.0, "is_met": False}
    figure = accuracy_figure(*drawn(a_run(accuracy=accuracy | {"is_met": False})))
    (row,) = figure.numbers.rows
    assert (row[3].text, row[4].text, row[-1].text, row[-1].tone) == ("90.000", "at least 98.004", "missed", "bad")
    (row,) = accuracy_figure(*drawn(a_run())).numbers.rows
    assert (row[3].text, row[5].text, row[-1].text, row[-1].tone) == ("98.994", "98.994", "met", "good")


def test_a_score_that_is_no_number_is_a_row_without_a_point(a_run):
    accuracy = a_run().accuracy.model_dump()
    accuracy["targets"][0] |= {"value": None, "is_met": False}
    assert accuracy_figure(*drawn(a_run(accuracy=accuracy | {"is_met": False}))) is None


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 9.0, {1, 2, 5, 10}),
        (1.0, 500.0, {1, 3, 10, 30, 100, 300, 1000}),
        (1.0, 1e5, {1, 10, 100, 1000, 10_000, 100_000}),
    ],
)
def test_ticks_are_round_and_fewer_over_more_decades(low, high, ticks):
    assert ticks <= set(ticks_between(low, high))
    assert {2.0, 20.0}.isdisjoint(ticks_between(1.0, 1e5))


COURSE = {"step_ns": 500_000_000, "in_flight": [2.0, 4.0], "waiting": [], "failed": [0, 3]}


def test_a_load_over_time_is_drawn_with_a_view_for_each_noted_quantity(a_server_run):
    figure = course_figure(*drawn(a_server_run(engine={"kind": "engine", "course": COURSE})), "Rate", {})
    assert list(figure.views) == ["requests in flight", "failed requests"]
    assert rows_of(figure) == [["pytorch fp32", "", "3.00", "1.50"]]
    assert course_figure(*drawn(a_server_run()), "Rate", {}) is None


@pytest.mark.parametrize(
    "noted",
    [
        {**COURSE, "step_ns": 0},
        {**COURSE, "step_ns": "1"},
        {"step_ns": 1, "in_flight": ["<b>"], "failed": [None]},
        {"step_ns": 1, "in_flight": [1] * 1001},
        {"step_ns": 1, "in_flight": {"0": 1}},
        [1],
    ],
    ids=range(6),
)
def test_a_course_of_another_form_in_a_record_is_not_drawn(a_server_run, noted):
    assert course_figure(*drawn(a_server_run(engine={"kind": "engine", "course": noted})), "Rate", {}) is None


HEADINGS = "seconds,sensor,device,clock_mhz,temperature_c,power_w,busy,throttled_by,strangers"
READ = TelemetryRecord(seconds=2.0, processor_share=0.0, devices=[]).model_dump()


def devices_figure(run, folder, *rows, headings=HEADINGS):
    """Draw a run in whose folder these readings are."""
    (folder / "telemetry.csv").write_text("\n".join([headings, *rows, ""]))
    return course_figure(*drawn(run), "Server", {run.run_id: folder})


def test_readings_are_drawn_by_device_with_a_view_for_each_quantity_that_has_values(a_server_run, tmp_path):
    run = a_server_run(telemetry=READ, engine={"kind": "engine", "course": COURSE})
    readings = ["1,nvml,GPU 0,1980,60,,0.5,,", "1,nvml,GPU 1,1200,,,1.0,heat,", "2,nvml,GPU 0,1780,61,,0.7,,"]
    figure = devices_figure(run, tmp_path, *readings, "2,nvml,GPU 1,1200,,,1.0,heat,")
    assert list(figure.views) == [
        "requests in flight",
        "failed requests",
        "clock in MHz",
        "temperature in °C",
        "share of the time in use",
    ]
    assert rows_of(figure) == [
        ["pytorch fp32", "", "3.00", "1.50", "-", "-", "-"],
        ["pytorch fp32", "GPU 0", "-", "-", "1,880", "60.5", "0.600"],
        ["pytorch fp32", "GPU 1", "-", "-", "1,200", "-", "1.00"],
    ]
    clocks = figure.views["clock in MHz"]
    assert clocks.count('aria-roledescription="line mark"') + clocks.count("mark-line") == 2, "a line for each device"
    assert all(re.search(r">2(\.0)?</text>", view) for view in figure.views.values()), "one axis, to the last second"


def test_a_long_test_is_drawn_by_two_hundred_means(a_server_run, tmp_path):
    rows = [f"{second},nvml,GPU 0,{1000 + second % 2},,,,," for second in range(10_000)]
    svg = devices_figure(a_server_run(telemetry=READ), tmp_path, *rows).views["clock in MHz"]
    assert 200 <= max(path.count("L") for path in svg.split('d="')) <= 201


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["1,nvml,GPU 0,nan,,,,,"], "'nan' is not a reading"),
        (["1,nvml,GPU 0,1e300,,,,,"], "'1e300' is not a reading"),
        (["-1,nvml,GPU 0,1980,,,,,"], "'-1' is not a reading"),
        (["1,nvml"], "it is damaged (IndexError"),
        (["soon,nvml,GPU 0,,,,,,"], "could not convert string to float: 'soon'"),
        ([f"1,nvml,GPU {number},1980,,,,," for number in range(33)], "it has more than 32 devices"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0][:20],
)
def test_broken_readings_cost_the_picture_and_a_line(a_server_run, tmp_path, caplog, rows, reason):
    assert devices_figure(a_server_run(telemetry=READ), tmp_path, *rows) is None
    (line,) = caplog.messages
    assert line.startswith("The devices of run ") and f"telemetry.csv holds no readings: {reason}" in line


def test_readings_without_a_column_are_broken_too(a_server_run, tmp_path, caplog):
    assert devices_figure(a_server_run(telemetry=READ), tmp_path, "1,1980", headings="seconds,clock_mhz") is None
    assert "telemetry.csv holds no readings: 'device' is not in list" in caplog.text


def test_of_a_run_without_readings_none_are_looked_for(a_server_run, tmp_path, caplog):
    row = "1,nvml,GPU 0,1980,,,,,"
    assert devices_figure(a_server_run(), tmp_path, row, "2" + row[1:]) is None
    assert devices_figure(a_server_run(telemetry=READ), tmp_path, row) is None, "a line has two points at least"
    assert not caplog.messages
