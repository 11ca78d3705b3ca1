"""What runs to come will take, by those that are stored."""

import pytest

from mlbench import Profile
from mlbench.planning.expected_times import KnownTimes, cost_of, newest_runs
from mlbench.planning.requests import RunRequest
from mlbench.records.expected_cost import Basis

OFFLINE = RunRequest(workload="resnet50", backend="pytorch", scenario="Offline")
SERVER = RunRequest(workload="resnet50", backend="pytorch", scenario="Server")
BERT = RunRequest(workload="bert", backend="pytorch", scenario="Server")


def took(a_run, seconds, **changes):
    return a_run(duration_ns=round(seconds * 1e9), **changes)


@pytest.fixture
def store(tmp_path, a_run):
    """Store a run in a results folder, and return the folder."""

    def store(name, **changes):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(a_run(run_id=name, **changes).text())
        return tmp_path

    return store


def test_a_run_takes_what_the_middle_one_of_its_kind_took(a_run):
    times = KnownTimes(took(a_run, seconds) for seconds in (7, 9, 50))
    assert (times.expect(OFFLINE).seconds, times.expect(OFFLINE).basis) == (9, Basis.SAME)


def test_exports_are_not_expected_again(a_run):
    times = KnownTimes([took(a_run, 63, stages_ns={"compile": 1 * 10**9, "export": 50 * 10**9})])
    assert times.expect(OFFLINE).seconds == 13


def test_a_kind_that_was_never_made_is_guessed_by_runs_of_its_workload_then_by_others_of_its_tier(a_run):
    times = KnownTimes([took(a_run, 7), took(a_run, 40, workload="gptj")])
    assert (times.expect(SERVER).seconds, times.expect(SERVER).basis) == (7, Basis.SIMILAR)
    assert (times.expect(BERT).seconds, times.expect(BERT).basis) == (23.5, Basis.SIMILAR)


def test_where_no_run_of_the_tier_was_made_a_mini_run_is_guessed_by_those_of_another_machine(a_run):
    """Smoke measures for 2 s; 50 runs took 873 s there."""
    times = KnownTimes([took(a_run, 700, tier="valid")])
    assert times.expect(OFFLINE).basis is Basis.ELSEWHERE
    assert times.expect(OFFLINE).seconds == pytest.approx(873 / 50, rel=0.05)


def test_of_a_full_model_that_was_never_run_only_the_least_duration_is_known(a_run):
    times = KnownTimes([took(a_run, 700)])
    full = RunRequest(workload="resnet50", backend="pytorch", scenario="Offline", profile=Profile.FULL)
    assert (times.expect(full).seconds, times.expect(full).basis) == (2, Basis.NOTHING)


def test_a_run_is_not_expected_to_be_shorter_than_it_was_asked_to_measure(a_run):
    asked = RunRequest(
        workload="resnet50", backend="pytorch", scenario="Offline", overrides={"load.min_duration_ms": "60000"}
    )
    assert KnownTimes([took(a_run, 7)]).expect(asked).seconds == 60


def test_a_failed_run_says_nothing_of_how_long_one_takes(a_run):
    failure = {"kind": "crash", "message": "", "stage": "compile", "log_tail": ""}
    times = KnownTimes([took(a_run, 1, status="failed", failure=failure, result=None, verdict=None)])
    assert times.expect(OFFLINE).basis is Basis.ELSEWHERE


def test_a_run_without_accuracy_is_not_expected_to_take_as_long_as_one_with_it(a_run):
    times = KnownTimes([took(a_run, 30), took(a_run, 10, accuracy=None)])
    assert times.expect(OFFLINE).seconds == 30


def test_several_runs_take_the_sum_and_are_known_as_badly_as_the_worst_known(a_run):
    together = KnownTimes([took(a_run, 7)]).expect_all([OFFLINE, OFFLINE, SERVER])
    assert (together.seconds, together.basis) == (21, Basis.SIMILAR)
    assert KnownTimes().expect_all([]).seconds == 0


def test_a_cost_counts_runs_by_how_well_they_are_known(store):
    results = store("one", duration_ns=7_000_000_000, peak_memory_bytes=5 << 30)
    cost = cost_of([OFFLINE, SERVER], newest_runs(results))
    assert (cost.runs, cost.similar_runs, cost.unknown_runs, cost.time.seconds) == (2, 1, 0, 14)
    assert cost.peak_memory_bytes == 5 << 30
    assert cost.disk_bytes == 2 * (results / "one" / "record.json").stat().st_size


def test_runs_beside_a_hidden_folder_are_known_to_those_made_in_it(store):
    results = store("run", duration_ns=9_000_000_000)
    assert [record.run_id for _, record in newest_runs(results / ".in-turns")] == ["run"]
    assert newest_runs(results / "in-turns") == []


def test_a_folder_without_runs_or_without_any_record_that_can_be_read_says_nothing(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "record.json").write_text("{}")
    assert not newest_runs(tmp_path)
    assert not newest_runs(tmp_path / "missing")
