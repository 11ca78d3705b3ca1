"""A history as a line of blocks, as a table and as JSON."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from mlbench.comparison.comparability import Difference
from mlbench.comparison.effect import Effect
from mlbench.comparison.history import History, Point, Step
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.history import (
    histories_json,
    history_heading,
    history_notes,
    history_table,
    print_histories,
    sparkline,
)

BEGIN = datetime(2026, 11, 1, 8, 30, tzinfo=UTC)


def history(*values, steps=(), runs=1, **changes):
    points = tuple(
        Point(run_id=f"run-{number}", created=BEGIN + timedelta(days=number), value=value, session=number, runs=runs)
        for number, value in enumerate(values)
    )
    fields = {
        "name": "resnet50 pytorch fp32 Offline",
        "measure": "throughput",
        "unit": "samples/s",
        "higher_is_better": True,
        "spread": 0.0123,
        "set_aside": 0,
        "reason": "",
    }
    return History(points=points, steps=steps, **fields | changes)


def step(index, ratio=0.5, verdict=SpeedVerdict.SLOWER, differences=()):
    effect = Effect(ratio=ratio, low=0.45, high=0.55, p_value=1e-4)
    return Step(index=index, effect=effect, verdict=verdict, differences=differences)


def test_the_tallest_block_is_the_largest_value():
    assert sparkline(history(100.0, 200.0)) == "▁█"
    assert sparkline(history(200.0, 100.0)) == "█▁"


def test_the_height_of_a_block_is_by_ratio():
    """1, 2, 4 ... 128: seven doublings, eight blocks."""
    assert sparkline(history(*(2.0**exponent for exponent in range(8)))) == "▁▂▃▄▅▆▇█"


def test_a_level_history_has_low_blocks():
    assert sparkline(history(5.0, 5.0, 5.0)) == "▁▁▁"


def test_a_bar_stands_before_the_first_session_of_a_new_level():
    assert sparkline(history(200.0, 200.0, 100.0, 100.0, steps=(step(2),))) == "██│▁▁"


def test_of_more_than_a_hundred_sessions_each_block_is_the_mean_of_several():
    """201 sessions in threes: 67 blocks, the step at session 99 in block 33."""
    line = sparkline(history(*[100.0] * 99, *[50.0] * 102, steps=(step(99),)))
    assert line == "█" * 33 + "│" + "▁" * 34


def test_the_heading_counts_runs_sessions_and_days():
    assert history_heading(history(1.0, 2.0, 3.0)) == (
        "resnet50 pytorch fp32 Offline: throughput, 3 runs, 2026-11-01 to 2026-11-03, 1.2% from session to session"
    )
    assert "throughput, 15 runs in 3 sessions, " in history_heading(history(1.0, 2.0, 3.0, runs=5))


def test_one_session_has_no_spread_in_the_heading():
    assert "throughput, 1 run, 2026-11-01 to 2026-11-01, one session shows no spread" in history_heading(history(1.0))


def test_the_heading_counts_runs_that_are_no_points():
    assert "3 runs, 2 failed or INVALID, 2026" in history_heading(history(1.0, 2.0, 3.0, set_aside=2))
    assert "failed or INVALID" not in history_heading(history(1.0))


def cells(found):
    table = history_table(found)
    headings = [str(column.header) for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return [dict(zip(headings, map(str, row), strict=True)) for row in rows]


def test_a_row_is_a_level_with_its_first_run_and_all_its_runs():
    before, after = cells(history(200.0, 200.0, 100.0, 100.0, 100.0, steps=(step(2),), runs=2))
    assert (before["since"], before["first run"], before["runs"]) == ("2026-11-01 08:30", "run-0", "4")
    assert (before["level"], before["speed"], before["step"]) == ("200 samples/s", "", "")
    assert (after["since"], after["first run"], after["runs"]) == ("2026-11-03 08:30", "run-2", "6")
    assert (after["level"], after["speed"], after["interval"]) == ("100 samples/s", "x 0.500", "0.450 to 0.550")
    assert after["step"] == "slower"


def test_a_history_without_steps_has_one_level():
    (level,) = cells(history(100.0, 400.0))
    assert (level["runs"], level["level"]) == ("2", "200 samples/s")


def test_levels_of_a_latency_are_times():
    (level,) = cells(history(2_000_000.0, unit="ns", higher_is_better=False))
    assert level["level"] == "2.00 ms"


def test_notes_say_why_no_steps_were_looked_for():
    assert list(history_notes(history(1.0, reason="2 sessions are too few"))) == [
        "Steps were not searched: 2 sessions are too few."
    ]


def test_notes_say_what_else_changed_at_a_step():
    difference = Difference(fact="versions", base="torch 2.9", new="torch 2.10")
    found = history(2.0, 1.0, steps=(step(1, differences=(difference,)),))
    assert list(history_notes(found)) == [f"2026-11-02 08:30: {difference}."]


def test_json_has_points_steps_and_levels():
    (found,) = json.loads(histories_json([history(200.0, 100.0, steps=(step(1),))]))
    assert [point["value"] for point in found["points"]] == [200.0, 100.0]
    assert [each["index"] for each in found["steps"]] == [1]
    assert [(level["first"], level["last"]) for level in found["levels"]] == [(0, 0), (1, 1)]
    assert found["points"][0]["created"].startswith("2026-11-01")


@pytest.mark.parametrize("width", [40, 160])
def test_all_of_it_is_printed_at_any_width(capsys, width):
    print_histories([history(200.0, 100.0, steps=(step(1),)), history(5.0, name="bert")], width)
    printed = " ".join(capsys.readouterr().out.split())
    assert "█│▁" in printed
    assert "bert: throughput" in printed


def test_memory_and_times_to_start_are_shown_where_their_level_changed(capsys):
    changes = {"kind": "memory", "unit": "bytes", "higher_is_better": False}
    steady = history(2.0**20, 2.0**20, measure="peak memory", **changes)
    grown = history(2.0**20, 2.0**21, measure="peak memory of the device", steps=(step(1, 2.0),), **changes)
    print_histories([history(100.0, 100.0), steady, grown])
    printed = capsys.readouterr().out
    assert "throughput, 2 runs" in printed
    assert "peak memory of the device" in printed
    assert "1.00 MiB" in printed
    assert "2.00 MiB" in printed
    assert "peak memory," not in printed
    assert "Not shown, since their level did not change: memory 1; --json has them." in printed
