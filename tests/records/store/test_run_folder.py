"""A run folder is complete, or it does not exist."""

import fcntl
import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from mlbench.errors import StorageError, UsageError
from mlbench.records.run_record import read
from mlbench.records.store.run_folder import (
    Claim,
    RunFolder,
    TakenError,
    find_run,
    new_run_id,
    remove_abandoned,
    runs_in,
)

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def stored(tmp_path, a_run):
    """Return a function that stores a run under an id."""

    def store(run_id, results=tmp_path / "results"):
        with RunFolder.create(results, run_id) as folder:
            return folder.store(a_run(run_id=run_id))

    return store


def test_a_run_id_says_when_what_and_how():
    run_id = new_run_id(NOON, "resnet50", "pytorch", "Offline", "mini", "fp32", "smoke")
    assert re.fullmatch(r"20261121T120000Z-resnet50-pytorch-Offline-mini-fp32-smoke-[0-9a-f]{4}", run_id)


def test_a_run_id_is_one_folder_name_whatever_a_plugin_calls_itself():
    assert re.fullmatch(r"20261121T120000Z-_etc_passwd-a_b-[0-9a-f]{4}", new_run_id(NOON, "/etc/passwd", "a b"))


def test_a_stored_run_is_there_with_everything_that_was_written(tmp_path, a_run):
    record = a_run()
    with RunFolder.create(tmp_path / "results", record.run_id) as folder:
        (folder.path / "log.txt").write_text("hello")
        final = folder.store(record)
    assert final == tmp_path / "results" / record.run_id
    assert (final / "log.txt").read_text() == "hello"
    assert read(final) == record
    assert [path.name for path in (tmp_path / "results").iterdir()] == [record.run_id]


def test_a_run_that_is_not_stored_leaves_nothing(tmp_path):
    results = tmp_path / "results"
    with pytest.raises(KeyboardInterrupt), RunFolder.create(results, "a-run") as folder:
        (folder.path / "log.txt").write_text("hello")
        raise KeyboardInterrupt
    assert list(results.iterdir()) == []


def test_half_written_runs_do_not_count(tmp_path, stored):
    whole = stored("20261121T120000Z-resnet50-aaaa")
    RunFolder.create(tmp_path / "results", "20261121T120001Z-resnet50-bbbb")  # as if killed while measuring
    killed = RunFolder.create(tmp_path / "results", "20261121T120002Z-resnet50-cccc")
    (killed.path / "record.json").write_text("{")  # as if killed while storing
    (tmp_path / "results" / "notes").mkdir()
    assert runs_in(tmp_path / "results") == [whole]


def killed_while_it_measures(results, run_id):
    """Make a run folder in a process that is then killed, and return the folder."""
    program = (
        "import os, pathlib, signal, sys; from mlbench.records.store.run_folder import RunFolder;"
        "folder = RunFolder.create(pathlib.Path(sys.argv[1]), sys.argv[2]);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, results, run_id], check=False)
    (folder,) = results.glob(f".{run_id}.partial")
    return folder


def test_a_killed_runs_folder_is_removed_at_once_and_a_living_ones_never(tmp_path):
    killed = killed_while_it_measures(tmp_path, "killed")
    with RunFolder.create(tmp_path, "living") as living:
        remove_abandoned(tmp_path)
        assert (killed.exists(), living.path.exists()) == (False, True)


def test_a_folder_in_the_making_is_never_seen_without_its_lock(tmp_path):
    """Whoever looks while a folder is made waits until its lock is taken."""
    results = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(results, fcntl.LOCK_EX)  # as somebody does who makes a folder, and was stopped half way
    (tmp_path / ".half-made.partial").mkdir()
    looking = threading.Thread(target=remove_abandoned, args=[tmp_path])
    looking.start()
    lock = os.open(tmp_path / ".half-made.partial", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(results)
    looking.join()
    assert (tmp_path / ".half-made.partial").exists()
    os.close(lock)


def test_nothing_is_abandoned_where_there_is_no_results_folder(tmp_path):
    remove_abandoned(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_runs_come_oldest_first_and_none_where_there_is_no_folder(tmp_path, stored):
    later, earlier = stored("20261122T000000Z-bert-aaaa"), stored("20261121T000000Z-bert-bbbb")
    assert runs_in(tmp_path / "results") == [earlier, later]
    assert runs_in(tmp_path / "nowhere") == []


def test_a_results_folder_that_cannot_be_written_is_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be written: .*file.*: Not a directory. Choose another .*--results"):
        RunFolder.create(tmp_path / "file" / "results", "a-run")


def test_two_runs_under_one_name_do_not_mix(tmp_path, stored, a_run):
    first = stored("a-run")
    with RunFolder.create(tmp_path / "results", "a-run") as folder, pytest.raises(UsageError, match="cannot be stored"):
        folder.store(a_run(run_id="a-run", backend="other"))
    assert read(first).backend == "pytorch"


def fill_the_disk(folder):
    """Let the record land where no byte has room."""
    (folder.path / "record.json").symlink_to("/dev/full")


def test_on_a_full_disk_the_logs_stay_under_a_name_that_no_later_run_removes(tmp_path, a_run):
    record = a_run()
    with RunFolder.create(tmp_path, record.run_id) as folder:
        (folder.path / "log.txt").write_text("hello")
        fill_the_disk(folder)
        with pytest.raises(StorageError) as caught:
            folder.store(record)
    remove_abandoned(tmp_path)
    kept = tmp_path / f".{record.run_id}.unstored"
    assert f"{tmp_path / record.run_id}: No space left on device. Its logs are in {kept}." in str(caught.value)
    assert [file.name for file in kept.iterdir()] == ["log.txt"]
    assert runs_in(tmp_path) == []
    assert caught.value.exit_code == 1


@pytest.fixture
def claim():
    return Claim(key="nightly 1", is_stored=lambda: False)


def test_a_claimed_run_is_made_by_one_process_at_a_time(tmp_path, claim):
    other = Claim(key="nightly 2", is_stored=lambda: False)
    with RunFolder.create(tmp_path, "one", claim):
        with pytest.raises(TakenError):
            RunFolder.create(tmp_path, "two", claim)
        with RunFolder.create(tmp_path, "three", other), RunFolder.create(tmp_path, "four"):
            pass
    with RunFolder.create(tmp_path, "five", claim):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_claim_of_a_killed_process_is_free(tmp_path, claim):
    killed = killed_while_it_measures(tmp_path, "killed")
    (killed / ".claim").write_text(claim.key)
    with RunFolder.create(tmp_path, "next", claim) as folder:
        assert folder.path.exists()


def test_a_run_that_was_stored_meanwhile_is_not_made_again(tmp_path, claim, a_run):
    record = a_run()
    with RunFolder.create(tmp_path, record.run_id, claim) as folder:
        final = folder.store(record)
    assert [file.name for file in final.iterdir()] == ["record.json"]
    with pytest.raises(TakenError):
        RunFolder.create(tmp_path, "again", Claim(key=claim.key, is_stored=lambda: True))


def test_a_results_folder_that_a_stopped_process_has_locked_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("mlbench.records.store.run_folder._LOCKED_WITHIN_S", 0.1)
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(UsageError, match="cannot be written"):
        RunFolder.create(tmp_path, "a-run")
    os.close(held)


def test_a_record_goes_into_its_own_folder_only(tmp_path, a_run):
    with RunFolder.create(tmp_path, "another-run") as folder, pytest.raises(ValueError, match="in the folder of"):
        folder.store(a_run())


def test_a_run_is_found_by_path_id_beginning_or_end(tmp_path, stored):
    results = tmp_path / "results"
    run = stored("20261121T120000Z-resnet50-3f2a")
    stored("20261122T120000Z-resnet50-bbbb")
    for name in (str(run), str(run / "record.json"), run.name, "20261121", "3f2a", "resnet50-3f2a"):
        assert find_run(results, name) == run


def test_a_name_that_fits_several_runs_lists_them(tmp_path, stored):
    stored("20261121T120000Z-resnet50-aaaa"), stored("20261121T130000Z-resnet50-bbbb")
    with pytest.raises(UsageError, match=r"2 runs match '20261121': 20261121T120000Z-resnet50-aaaa, 20261121T13"):
        find_run(tmp_path / "results", "20261121")


def test_a_name_that_fits_none_points_at_the_newest(tmp_path, stored):
    with pytest.raises(UsageError, match="It contains no runs"):
        find_run(tmp_path / "results", "bert")
    stored("20261121T120000Z-resnet50-aaaa")
    with pytest.raises(UsageError, match=r"no run 'bert'.*The newest is 20261121T120000Z-resnet50-aaaa"):
        find_run(tmp_path / "results", "bert")


def test_the_folder_of_a_run_that_lives_is_never_removed_however_old_it_is(tmp_path):
    results = tmp_path / "results"
    with RunFolder.create(results, "a-run") as folder:
        (folder.path / "log.txt").write_text("hello")
        os.utime(folder.path, (0, 0))
        remove_abandoned(results)
        assert (folder.path / "log.txt").read_text() == "hello"


def test_the_folder_of_a_run_that_was_killed_is_removed(tmp_path):
    results = tmp_path / "results"
    killed = results / ".a-run.partial"
    killed.mkdir(parents=True)
    (killed / "log.txt").write_text("hello")
    os.utime(killed, (0, 0))
    remove_abandoned(results)
    assert list(results.iterdir()) == []
