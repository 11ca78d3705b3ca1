"""The tables of the site, cell by cell, from records that real runs stored."""

from datetime import UTC, datetime, timedelta

import pytest

from mlbench.records.store.stored_runs import open_stored_runs
from mlbench.reports.site.content import read_workloads
from mlbench.reports.site.tables import (
    backends_notes,
    backends_table,
    changes_table,
    links_to_runs,
    newest_table,
    overview_table,
)
from mlbench.reports.summary import summarise

FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)


@pytest.fixture
def night(a_server_run):
    """Return a run of ResNet-50 in Offline, made in a night."""

    def run(number, samples_per_s, *, backend="pytorch", repeat=1, **changes):
        base = a_server_run(scenario="Offline")
        fields = {
            "run_id": f"20261001T000000Z-{backend}-{number}{repeat}",
            "created": FIRST + timedelta(days=number, minutes=repeat, hours=backend != "pytorch"),
            "backend": backend,
            "repeat": repeat,
            "result": base.result.model_dump() | {"value": samples_per_s},
        }
        return a_server_run(scenario="Offline", **(fields | changes))

    return run


@pytest.fixture
def content(tmp_path):
    """Return what the site shows of the only workload among these runs."""

    def content(*runs):
        for run in runs:
            folder = tmp_path / "results" / run.run_id
            folder.mkdir(parents=True)
            (folder / "record.json").write_text(run.text())
        with open_stored_runs(tmp_path / "results") as stored:
            (only,) = read_workloads(stored, 0.05)
        return only

    return content


def cells(table, column):
    """Return the cells of a column by its heading."""
    at = [each.heading for each in table.columns].index(column)
    return [row[at] for row in table.rows]


def invalid(run):
    return run.verdict.model_dump() | {"is_valid": False}


def test_the_overview_has_a_row_for_each_backend_and_a_column_for_each_scenario(stored_run):
    summary = summarise(
        {"": [stored_run(name, 1) for name in ("resnet50-pytorch-Server", "resnet50-onnxruntime-Offline")]}
    )
    table = overview_table(summary)
    assert [each.heading for each in table.columns] == ["workload", "backend", "accuracy", "Server", "Offline"]
    assert [cell.text for cell in cells(table, "backend")] == ["onnxruntime fp32", "pytorch fp32"]
    assert [cell.text for cell in cells(table, "Server")] == ["\N{EN DASH}", "18.5 samples/s"]
    assert [cell.text for cell in cells(table, "Offline")] == ["807 samples/s", "\N{EN DASH}"]
    assert {cell.page for cell in cells(table, "workload")} == {"workloads/resnet50.html"}


def test_a_result_links_to_its_newest_run_and_says_how_many_there_are(night):
    summary = summarise({"": [night(1, 90.0, repeat=1), night(1, 94.0, repeat=2), night(1, 92.0, repeat=3)]})
    (cell,) = cells(overview_table(summary), "Offline")
    assert (cell.text, cell.detail, cell.tone, cell.order) == ("92.0 samples/s", "valid, 3 runs", "", 92.0)
    assert cell.page == "runs/20261001T000000Z-pytorch-13.html"
    assert set(links_to_runs(summary, "../").values()) == {f"../{cell.page}"}


def test_a_session_with_a_bad_run_says_how_many_do_not_count(night):
    good = night(1, 90.0)
    summary = summarise({"": [good, night(1, 91.0, repeat=2, verdict=invalid(good))]})
    (cell,) = cells(overview_table(summary), "Offline")
    assert (cell.text, cell.detail, cell.tone) == ("90.0 samples/s", "1 of 2 runs does not count", "bad")


def test_a_single_bad_run_says_why(night):
    summary = summarise({"": [night(1, 91.0, verdict=invalid(night(1, 90.0)))]})
    (cell,) = cells(overview_table(summary), "Offline")
    assert (cell.text, cell.detail, cell.tone) == ("INVALID", "INVALID", "bad")


def test_one_score_is_spelled_out_with_its_target(stored_run):
    (cell,) = cells(overview_table(summarise({"": [stored_run("resnet50-pytorch-Server")]})), "accuracy")
    assert (cell.text, cell.detail, cell.tone) == ("acc 98.99", "target >= 98.00", "good")


def test_many_scores_are_counted(stored_run):
    (cell,) = cells(overview_table(summarise({"": [stored_run("mixtral-8x7b-onnxruntime-Offline")]})), "accuracy")
    assert (cell.text, cell.tone) == ("6 of 6 targets met", "good")


def test_a_missed_target_is_shown_even_if_a_newer_run_of_another_scenario_met_its(stored_run):
    old, new = stored_run("resnet50-pytorch-Offline", 1), stored_run("resnet50-pytorch-Server", 2)
    accuracy = old.model_dump()["accuracy"]
    targets = [each | {"value": 90.0, "is_met": False} for each in accuracy["targets"]]
    missed = accuracy | {"is_met": False, "targets": targets}
    summary = summarise({"": [stored_run("resnet50-pytorch-Offline", 1, accuracy=missed), new]})
    (cell,) = cells(overview_table(summary), "accuracy")
    assert cell.tone == "bad"
    assert cell.text == "acc 90.00 MISSES 98.00"


def test_a_run_without_an_accuracy_test_is_said_to_be_not_measured(night):
    summary = summarise({"": [night(1, 90.0, accuracy=None)]})
    (cell,) = cells(overview_table(summary), "accuracy")
    assert (cell.text, cell.tone) == ("not measured", "quiet")


def test_the_newest_results_of_a_workload_have_their_range_their_moment_and_their_count(content, night):
    runs = [night(1, 80.0), *(night(2, value, repeat=number) for number, value in enumerate((90.0, 94.0, 92.0), 1))]
    table = newest_table(content(*runs))
    ((scenario, series, value, verdict, accuracy, change, moment, count),) = table.rows
    assert (scenario.text, series.text, count.text) == ("Offline", "pytorch fp32", "4")
    assert (value.text, value.detail, value.order) == ("92.0 samples/s", "90.0 to 94.0 samples/s, 3 runs", 92.0)
    assert (verdict.text, verdict.detail, verdict.tone) == ("valid", "", "good")
    assert accuracy.text == "acc 98.99"
    assert (change.text, change.tone) == ("none", "quiet")
    assert (moment.text, moment.detail) == ("2026-10-03", "02:03")
    assert series.page == "../runs/20261001T000000Z-pytorch-23.html"


@pytest.fixture
def slowed(content, night):
    """Return a workload that became a fifth slower in the thirteenth night."""
    return content(*(night(each, (100 if each < 12 else 80) + 0.1 * (each % 3)) for each in range(20)))


def test_the_last_change_of_level_stands_beside_the_result(slowed):
    (cell,) = cells(newest_table(slowed), "last change")
    assert (cell.text, cell.detail, cell.tone) == ("slower, x 0.800", "2026-10-13", "bad")


def test_of_several_changes_the_newest_stands_there_and_leads_the_list(content, night):
    levels = [100] * 12 + [80] * 12 + [120] * 12
    found = content(*(night(each, level + 0.1 * (each % 3)) for each, level in enumerate(levels)))
    (cell,) = cells(newest_table(found), "last change")
    assert (cell.text, cell.detail, cell.tone) == ("faster, x 1.499", "2026-10-25", "good")
    table = changes_table(found.changes, "Changes", base="", has_workload=False)
    assert [cell.text for cell in cells(table, "since, UTC")] == ["2026-10-25", "2026-10-13"]


def test_changes_name_the_night_the_run_and_what_else_changed(slowed):
    table = changes_table(slowed.changes, "Changes", base="../", has_workload=True)
    ((when, workload, combination, measure, speed, interval, change, differences),) = table.rows
    assert (when.text, when.detail) == ("2026-10-13", "02:01")
    assert (workload.text, workload.page, workload.link) == ("resnet50", "../workloads/resnet50.html", "history")
    assert (combination.text, combination.detail) == ("pytorch fp32, Offline", "first run 121")
    assert (measure.text, speed.text, interval.text) == ("throughput", "x 0.800", "0.799 to 0.801")
    assert (change.text, change.tone) == ("slower", "bad")
    assert (differences.text, differences.tone) == ("nothing recorded", "quiet")


def test_on_a_workloads_own_page_no_column_says_which_it_is(slowed):
    table = changes_table(slowed.changes, "Changes", base="../", has_workload=False)
    assert [each.heading for each in table.columns][:3] == ["since, UTC", "combination", "measure"]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_without_a_change_there_is_no_table_of_them(content, night):
    assert changes_table(content(night(1, 90.0)).changes, "Changes", base="", has_workload=True) is None


def test_backends_are_held_against_the_one_that_ran_first(content, night):
    runs = [
        night(each, value + 0.1 * (each % 3), backend=backend)
        for each in range(12)
        for backend, value in (("pytorch", 100), ("onnxruntime", 50))
    ]
    found = content(*runs)
    table = backends_table(found)
    ((combination, measure, base, new, speed, _, _, accuracy),) = table.rows
    assert combination.text.startswith("onnxruntime") and combination.detail.startswith("against pytorch")
    assert (measure.text, base.text, new.text, speed.text) == (
        "throughput",
        "100 samples/s",
        "50.2 samples/s",
        "x 0.501",
    )
    assert (accuracy.text, accuracy.tone) == ("as accurate", "good")


def test_a_comparison_without_a_verdict_says_what_is_missing(content, night):
    found = content(night(1, 100.0), night(1, 50.0, backend="onnxruntime"))
    (verdict,) = cells(backends_table(found), "verdict")
    assert (verdict.text, verdict.tone) == ("cannot tell", "quiet")
    (note,) = backends_notes(found)
    assert note.startswith("onnxruntime") and "throughput: " in note


def test_one_backend_is_held_against_nothing(content, night):
    found = content(night(1, 100.0), night(2, 101.0))
    assert backends_table(found) is None
    assert backends_notes(found) == []
