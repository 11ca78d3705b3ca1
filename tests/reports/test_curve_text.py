"""A curve as a table and as JSON, from records that real runs stored."""

import json
from dataclasses import dataclass

import pytest

from mlbench.reports.curve import curve_json, curve_lines, curve_plan_line, curve_points, headings, table_rows

SERVER, OFFLINE = "llama2-70b-onnxruntime-Server", "gptj-pytorch-Offline"


@dataclass(frozen=True)
class Left:
    """What is left of a curve, as a plan says it."""

    rates_per_s: tuple = ()
    seconds: float = 0.0
    stored: int = 0


@pytest.fixture
def at_a_rate(stored_run):
    """Return a run of ResNet-50 at a rate, with changes of its result."""

    def run(number, rate, samples_per_s, *, p90_ms=5.0, p99_ms=9.0, **changes):
        base = stored_run("resnet50-pytorch-Server")
        times = {"90.00_percentile_latency": p90_ms * 1e6, "99.00_percentile_latency": p99_ms * 1e6}
        result = base.result.model_dump() | {"value": samples_per_s, "latency_ns": base.result.latency_ns | times}
        return stored_run(
            "resnet50-pytorch-Server", number, load=base.load | {"target_qps": rate}, result=result, **changes
        )

    return run


def broken(run, *rules):
    """Return a verdict in which these rules, and no others, failed."""
    changed = [
        rule.model_dump() | {"passed": rule.rule not in rules, "kind": "performance", "required": True}
        for rule in run.verdict.rules
    ]
    return run.verdict.model_dump() | {"is_valid": False, "rules": changed}


def test_a_row_has_the_load_the_throughput_the_times_and_whether_it_counts(at_a_rate):
    points = curve_points([at_a_rate(1, 20, 19.9)])
    assert headings(points) == ("load", "per device", "repeats", "latency p90 / p99", "counts", "accuracy")
    assert list(table_rows(points)) == [
        ("20/s", "19.9 samples/s", "1 run", "5.00 ms / 9.00 ms", "valid", "met"),
    ]


def test_what_users_of_a_language_model_see_has_a_column(stored_run):
    points = curve_points([stored_run(SERVER)])
    assert headings(points)[3:5] == ("tokens/s per user", "TTFT p90 / p99")
    assert {len(row) for row in table_rows(points)} == {len(headings(points))}


def test_all_at_once_has_neither_a_rate_nor_a_time_that_a_user_waits_for(stored_run):
    (point,) = curve_points([stored_run(OFFLINE)])
    assert (point.name, point.rate_per_s, point.per_user) == ("all at once", None, None)
    assert next(table_rows([point]))[3] == "-"


def test_all_at_once_stands_before_every_rate(at_a_rate, stored_run):
    names = [each.name for each in curve_points([at_a_rate(1, 4, 4.0), stored_run("resnet50-pytorch-Offline", 2)])]
    assert names == ["all at once", "4/s"]


def test_repeats_show_the_least_and_the_greatest(at_a_rate):
    points = curve_points([at_a_rate(1, 20, 19.0), at_a_rate(2, 20, 21.0)])
    assert next(table_rows(points))[1:3] == ("20.0 samples/s", "19.0 to 21.0")


def test_a_point_that_does_not_count_names_the_first_broken_rule(at_a_rate):
    good = at_a_rate(1, 20, 19.0)
    rules = [each.rule for each in good.verdict.rules]
    (point,) = curve_points([at_a_rate(2, 20, 19.0, verdict=broken(good, rules[3], rules[1]))])
    assert next(table_rows([point]))[-2] == f"INVALID: {rules[1]}"
    assert point.per_device == 19.0, "its numbers are shown"


def test_a_failed_run_is_a_point_without_numbers(at_a_rate, stored_run):
    crash = {"kind": "crash", "message": "killed by signal 9", "stage": "performance", "log_tail": ""}
    nothing = dict.fromkeys(("result", "accuracy", "verdict"))
    load = at_a_rate(1, 20, 19.0).load
    failed = stored_run("resnet50-pytorch-Server", 1, load=load, status="failed", failure=crash, **nothing)
    (point,) = curve_points([failed])
    assert next(table_rows([point])) == ("20/s", "-", "1 run", "- / -", "failed: crash", "-")


def test_one_missed_target_among_the_repeats_is_said(at_a_rate):
    good = at_a_rate(1, 20, 19.0)
    missed = at_a_rate(2, 20, 19.0, verdict=good.verdict.model_dump() | {"is_accurate": False})
    (point,) = curve_points([good, missed])
    assert point.is_accurate is False
    assert next(table_rows([point]))[-1] == "missed"


def test_a_point_slower_for_all_and_for_each_is_marked(at_a_rate):
    points = curve_points([at_a_rate(1, 10, 10.0, p99_ms=9.0), at_a_rate(2, 20, 20.0, p99_ms=8.0)])
    assert [row[-2] for row in table_rows(points)] == ["dominated", "valid"]


def test_more_throughput_at_a_longer_wait_dominates_nothing(at_a_rate):
    points = curve_points([at_a_rate(1, 10, 10.0, p99_ms=7.0), at_a_rate(2, 20, 20.0, p99_ms=8.0)])
    assert [row[-2] for row in table_rows(points)] == ["valid", "valid"]


def test_the_columns_of_the_lines_stand_below_each_other(at_a_rate):
    points = curve_points([at_a_rate(1, 5, 5.0), at_a_rate(2, 160, 1234.0)])
    head, *rows = list(curve_lines(points))
    assert len(rows) == 2
    for heading in ("per device", "repeats", "counts"):
        assert all(row[head.index(heading) - 1] == " " != row[head.index(heading)] for row in rows), heading


def test_other_programs_get_every_point_with_its_runs(at_a_rate, stored_run):
    points = curve_points([at_a_rate(1, 20, 19.0), stored_run("resnet50-pytorch-Offline", 2)])
    told = json.loads(curve_json(points, missing=5, made=2))
    assert (told["missing"], told["made"]) == (5, 2)
    assert [each["rate_per_s"] for each in told["points"]] == [None, 20]
    assert [each["runs"] for each in told["points"]] == [["run-0002"], ["run-0001"]]
    assert told["points"][1]["latency"] == {"p90_ns": 5_000_000, "p99_ns": 9_000_000}
    assert told["points"][1]["is_dominated"] is False


@pytest.mark.parametrize(
    ("left", "line"),
    [
        (
            Left(seconds=300),
            "bert: 8 runs: about 5 min. The first run, with all samples at once, determines the rates.",
        ),
        (Left((2.5, 40.0), 120, 3), "bert: 8 runs at 2.5, 40/s and all at once; 3 are stored: about 2 min."),
        (
            Left((2.5, 40.0), 0, 8),
            "bert: 8 runs at 2.5, 40/s and all at once; 8 are stored: nothing is left to measure.",
        ),
    ],
)
def test_a_plan_says_what_is_measured_and_how_long_that_takes(left, line):
    assert curve_plan_line("bert", 8, left) == line
