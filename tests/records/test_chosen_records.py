"""Which records a filter lets through, which are history of others, and what makes a machine quiet."""

from datetime import UTC, datetime

import pytest

from mlbench.errors import UsageError
from mlbench.records.machine.noise import Noise, measure_noise
from mlbench.records.published import load_published, select_published
from mlbench.records.published import table as read_table
from mlbench.records.store.baselines import save_baseline
from mlbench.records.store.selection import (
    Filter,
    newest_of_each_kind,
    records_named,
    runs_like,
    select_records,
)

RUNS = (
    {"backend": "pytorch", "tier": "smoke"},
    {"backend": "pytorch", "tier": "dev"},
    {"backend": "onnxruntime", "tier": "smoke"},
    {"backend": "pytorch", "tier": "smoke", "workload": "bert"},
    {"backend": "pytorch", "tier": "smoke", "precision": "int8"},
    {"backend": "pytorch", "tier": "smoke", "scenario": "Server"},
)


@pytest.fixture
def results(a_run, tmp_path, monkeypatch):
    """Store the runs above, one a day, the newest first in the folder's order of names."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    for number, facts in enumerate(RUNS):
        run = a_run(run_id=f"{9 - number}-run", created=datetime(2026, 11, 1 + number, tzinfo=UTC), **facts)
        folder = tmp_path / "results" / run.run_id
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(run.text())
    return tmp_path / "results"


def numbers(records):
    return sorted(9 - int(record.run_id[0]) for record in records)


@pytest.mark.parametrize("named", [(), [f"{9 - number}-run" for number in range(len(RUNS))]], ids=["none", "all"])
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"tier": "dev"}, [1]),
        ({"backend": "onnxruntime"}, [2]),
        ({"workload": "bert"}, [3]),
        ({"scenario": "Server"}, [5]),
        ({"backend": "pytorch", "workload": "resnet50", "tier": "smoke"}, [0, 4, 5]),
        ({"newest": 2}, [4, 5]),
        ({"newest": 1, "tier": "smoke"}, [5]),
        ({"newest": 2, "scenario": "Offline"}, [3, 4]),
        ({"newest": 99}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_filter_lets_through_what_has_all_that_it_asks_for(results, wanted, found, named):
    assert numbers(select_records(results, named, Filter(**wanted))) == found


def test_the_newest_are_so_by_time_and_not_by_name(results):
    (record,) = select_records(results, (), Filter(newest=1))
    assert (record.run_id, record.created.day) == ("4-run", 6)


@pytest.mark.parametrize("wanted", [{"backend": "tensorrt"}, {"tier": "dev", "newest": 3}, {"workload": "\udc80"}])
def test_a_filter_that_nothing_passes_is_an_error_that_says_so(results, wanted):
    (results / "8-run" / "record.json").unlink()
    with pytest.raises(UsageError, match=r"none of 5 runs has (backend 'tensorrt'|tier 'dev'|workload )"):
        select_records(results, (), Filter(**wanted))


def store_older(a_run, results, name, **facts):
    run = a_run(run_id=name, created=datetime(2026, 10, 1, tzinfo=UTC), **facts)
    (results / name).mkdir()
    (results / name / "record.json").write_text(run.text())


def test_the_newest_of_each_kind_is_the_last_run_of_the_same_request_under_the_same_conditions(results, a_run):
    for number in range(3):
        store_older(a_run, results, f"a{number}", **RUNS[3])
    store_older(a_run, results, "b0", **RUNS[0])
    store_older(a_run, results, "c0", **RUNS[0], settings={})  # of a kind that no newer run has
    found, left_out = newest_of_each_kind(results, Filter())
    assert sorted(record.run_id for record in found) == [*(f"{number}-run" for number in range(4, 10)), "c0"]
    assert left_out == 4
    found, left_out = newest_of_each_kind(results, Filter(workload="bert"))
    assert ([record.run_id for record in found], left_out) == (["6-run"], 3)
    with pytest.raises(UsageError, match=r"none of 11 runs has backend 'tensorrt'"):
        newest_of_each_kind(results, Filter(backend="tensorrt"))


def test_a_run_that_is_named_is_filtered_too(results):
    assert numbers(select_records(results, ["9-run", "8-run"], Filter(tier="dev"))) == [1]
    with pytest.raises(UsageError, match=r"none of 1 runs has tier 'dev'"):
        select_records(results, ["9-run"], Filter(tier="dev"))


def test_only_runs_of_the_same_request_are_history(results, a_run):
    """Not those of another tier, backend, workload, precision or scenario."""
    for number, facts in enumerate(RUNS):
        assert numbers(runs_like(results, [a_run(**facts)])) == [number]


def test_history_of_several_runs_is_of_each_and_oldest_first(results, a_run):
    found = runs_like(results, [a_run(**RUNS[5]), a_run(**RUNS[0])])
    assert [record.created.day for record in found] == [1, 6]


def test_a_folder_without_runs_has_no_history(tmp_path, a_run):
    assert runs_like(tmp_path / "nothing", [a_run()]) == []


@pytest.mark.parametrize(
    ("spread", "pause_ms", "is_quiet"),
    [(0.02, 1, True), (0.05, 5, True), (0.051, 1, False), (0.02, 5.1, False), (0.5, 500, False)],
)
def test_a_machine_is_quiet_where_neither_times_nor_pauses_vary(spread, pause_ms, is_quiet):
    """5 % of the median, and 5 ms."""
    assert Noise(spread=spread, longest_pause_ns=round(pause_ms * 1e6)).is_quiet is is_quiet


def test_noise_is_a_share_and_a_time():
    found = measure_noise(seconds=0)
    assert found.spread >= 0
    assert found.longest_pause_ns >= 0


def rows(**wanted):
    """Count the rows of the published file, as it is, that have these values."""
    found = read_table("mlperf_inference_v4.1.csv")
    return sum(all(value in row[name] for name, value in wanted.items()) for row in found)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"submitter": "nvidia"}, {"submitter": "NVIDIA"}),
        ({"submitter": "google", "workload": "stable-diffusion-xl"}, {"submitter": "Google", "benchmark": "stable-"}),
        ({"accelerator": "MI300X"}, {"accelerator_model": "MI300X"}),
        ({"scenario": "MultiStream"}, {"scenario": "MultiStream"}),
        ({"workload": "resnet50", "scenario": "Server"}, {"benchmark": "resnet", "scenario": "Server"}),
    ],
)
def test_published_results_are_found_by_parts_of_names(filters, wanted):
    assert len(select_published(**filters)) == rows(**wanted) > 0


def test_accelerators_of_all_nodes_count():
    """Of the published file: nodes times accelerators of a node, where both are numbers."""
    listed = {
        row["result_id"] + row["accuracy_variant"] + row["scenario"] + row["benchmark"]: row
        for row in read_table("mlperf_inference_v4.1.csv")
    }
    several = 0
    for each in load_published():
        row = listed[each.result_id + each.variant + each.scenario + each.benchmark]
        if row["nodes"].isdecimal() and row["accelerators_per_node"].isdecimal():
            assert each.accelerators == int(row["nodes"]) * int(row["accelerators_per_node"])
            several += int(row["nodes"]) > 1
    assert several > 0


@pytest.mark.parametrize("kind", ["tag", "baseline"])
def test_a_folder_without_runs_does_not_hide_a_tag_or_a_baseline_of_its_name(a_run, tmp_path, monkeypatch, kind):
    """An installation of mlbench lies in ``old``, and what it measured has the tag ``old``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old" / "bin").mkdir(parents=True)
    run, results = a_run(run_id="1-run", tag="old" if kind == "tag" else ""), tmp_path / "results"
    (results / run.run_id).mkdir(parents=True)
    (results / run.run_id / "record.json").write_text(run.text())
    with pytest.raises(UsageError, match="no runs in other"):
        (tmp_path / "other").mkdir()
        records_named(results, "other")
    if kind == "baseline":
        save_baseline(results, "old", [run])
    assert [each.run_id for each in records_named(results, "old")] == ["1-run"]
