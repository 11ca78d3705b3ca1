"""A curve's points, from records that real runs stored, with numbers that are checked in the head."""

import pytest

from mlbench.reports.curve import curve_points, is_dominated, table_rows
from mlbench.reports.html.curve_charts import curve_figures
from mlbench.reports.html.drawing import Palette
from mlbench.reports.summary import summarise

TOKENS = "llama2-70b-onnxruntime-Server"


@pytest.fixture
def a_point(stored_run):
    """Return a run of a curve of a language workload at a rate: tokens/s, and the p90 of a token in ms."""

    def run(number, rate, tokens_per_s, tpot_ms, name=TOKENS, **changes):
        base = stored_run(name)
        times = base.result.latency_ns | {"time_per_output_token_90.00_percentile": round(tpot_ms * 1e6)}
        result = base.result.model_dump() | {"value": tokens_per_s, "latency_ns": times}
        load = base.load | {"target_qps": rate}
        settings = {"load.target_qps": {"value": rate, "layer": "command line"}}
        return stored_run(name, number, tag="curve", result=result, load=load, settings=settings, **changes)

    return run


def invalid(run):
    return run.verdict.model_dump() | {"is_valid": False}


def figures_of(*runs):
    summary = summarise({"": runs})
    return list(curve_figures(summary.combinations, Palette(summary.series)))


def test_interactivity_is_the_reciprocal_of_the_time_per_token(a_point):
    (point,) = curve_points([a_point(1, 10, 500.0, 4)])
    assert (point.per_user, point.per_device, point.unit) == (250.0, 500.0, "tokens/s")
    # of the record: 8.28 ms and 12.35 ms
    assert point.times.text() == "8.28 ms / 12.4 ms"


def test_repeats_of_a_rate_are_one_point_with_their_spread(a_point):
    first, second, third = (a_point(number, 10, value, 4) for number, value in enumerate([500.0, 520.0, 540.0]))
    (point,) = curve_points([third, first, second])
    assert (point.low, point.per_device, point.high) == (500.0, 520.0, 540.0)
    assert len(point.runs) == 3


def test_points_stand_by_ascending_rate(a_point):
    names = [each.name for each in curve_points([a_point(1, 20, 900.0, 5), a_point(2, 3, 150.0, 2)])]
    assert names == ["3/s", "20/s"]


def test_a_point_that_another_beats_in_both_is_dominated(a_point):
    slow, best, fast = curve_points([a_point(1, 10, 500.0, 4), a_point(2, 20, 900.0, 3), a_point(3, 30, 1000.0, 8)])
    found = [is_dominated(each, [slow, best, fast]) for each in (slow, best, fast)]
    assert found == [True, False, False]


def test_an_invalid_point_dominates_none_and_says_so(a_point, stored_run):
    good = a_point(1, 10, 500.0, 4)
    bad = a_point(2, 20, 900.0, 3, verdict=invalid(good))
    points = curve_points([good, bad])
    assert [bool(each.problem) for each in points] == [False, True]
    assert not is_dominated(points[0], points)
    assert [row[-2] for row in table_rows(points)] == ["valid", "INVALID"]


def test_valid_repeats_alone_make_the_numbers_of_a_point(a_point):
    good = a_point(1, 10, 500.0, 4)
    (point,) = curve_points([good, a_point(2, 10, 100.0, 40, verdict=invalid(good))])
    assert (point.problem, point.per_device, point.per_user) == ("", 500.0, 250.0)


def test_the_picture_has_the_limits_of_the_rules_and_every_point(a_point):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    interactivity, waiting = figures_of(a_point(1, 10, 500.0, 4), a_point(2, 20, 900.0, 5))
    assert "limit 200 ms a token" in interactivity.svg
    assert "limit 2.00 s" in waiting.svg
    assert [row[1].text for row in interactivity.numbers.rows] == ["10/s", "20/s"]
    assert "Hollow" not in interactivity.note


def test_published_results_stand_beside_full_models_alone(a_point):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    interactivity, _ = figures_of(a_point(1, 10, 500.0, 4, profile="full"))
    assert "Hollow points are published results" in interactivity.note
    assert "H200" in interactivity.svg


def test_where_no_token_is_timed_the_latency_is_drawn(a_server_run):
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    (figure,) = figures_of(a_server_run(1, tag="curve"), a_server_run(2, scenario="Offline", tag="curve"))
    assert figure.title == "Curve: latency against throughput"
    assert "limit 100 ms" in figure.svg
    assert "all samples at once" in figure.note


def test_runs_without_the_tag_are_no_curve(a_server_run):
    assert figures_of(a_server_run(1), a_server_run(2)) == []
