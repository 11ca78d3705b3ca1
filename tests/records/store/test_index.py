"""The tables of a results folder, asked for by several processes at once, and where they cannot be kept."""

import fcntl
import os
import subprocess
import sys

import pytest

from mlbench.records.store import index
from mlbench.records.store.index import folders_where
from mlbench.records.store.query import ask


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a cache of the test's own, in which the tables of a single run are kept."""
    monkeypatch.setattr(index, "_KEPT_FROM", 1)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store(tmp_path, a_run):
    """Store a record in the results folder, as a run does: whole or not at all."""

    def store(run_id, **changes):
        folder = tmp_path / "results" / f".{run_id}.partial"
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(a_run(run_id=run_id, **changes).text())
        folder.rename(tmp_path / "results" / run_id)
        return tmp_path / "results"

    return store


def kept(cache):
    """Return the one file of tables in the cache."""
    (file,) = (cache / "records").glob("*.duckdb")
    return file


ASKING = """
import sys
from pathlib import Path
from mlbench.records.store import index
from mlbench.records.store.query import ask

index._KEPT_FROM = 1
print("ready", flush=True)
last = 1
while not Path(sys.argv[2]).exists():
    ((count,),) = ask(Path(sys.argv[1]), "SELECT count(*) FROM runs").rows
    assert count >= last, (count, last)
    last = count
((count,),) = ask(Path(sys.argv[1]), "SELECT count(*) FROM runs").rows
print(count)
"""


@pytest.mark.thorough("command line")
def test_processes_that_ask_while_runs_are_stored_block_none(store, cache, tmp_path):
    results, end = store("0"), tmp_path / "end"
    command = [sys.executable, "-c", ASKING, results, end]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in asking:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for number in range(1, 10):
        store(str(number))
        ask(results, "SELECT count(*) FROM runs")
    end.touch()
    for process in asking:
        printed, complaints = process.communicate()
        assert (process.returncode, complaints, printed) == (0, "", "10\n")
    assert sorted(file.suffix for file in (cache / "records").iterdir()) == [".duckdb", ".lock"]


def test_while_another_process_holds_the_lock_the_tables_are_made_in_memory(store, cache, monkeypatch):
    results = store("one")
    ask(results, "SELECT 1")
    monkeypatch.setattr(index, "_PATIENCE_S", 0.0)
    store("two")
    with kept(cache).with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert ask(results, "SELECT run_id FROM runs ORDER BY run_id").rows == (("one",), ("two",))


def test_a_reader_keeps_its_tables_while_others_replace_them(store, cache):
    results = store("one")
    with index.open_index(results) as database:
        store("two")
        assert [folder.name for folder in folders_where(results)] == ["one", "two"]
        assert database.execute("SELECT folder FROM stored.records").fetchall() == [("one",)]


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_a_damaged_file_in_the_cache_is_made_anew(store, cache, content):
    results = store("one")
    ask(results, "SELECT 1")
    kept(cache).write_bytes(content)
    assert ask(results, "SELECT run_id FROM runs").rows == (("one",),)
    assert kept(cache).stat().st_size > len(content)


def test_tables_are_kept_once_they_save_time(store, cache, monkeypatch):
    monkeypatch.setattr(index, "_KEPT_FROM", 2)
    ask(store("one"), "SELECT 1")
    assert not cache.exists()
    assert ask(store("two"), "SELECT run_id FROM runs ORDER BY run_id").rows == (("one",), ("two",))
    assert kept(cache).stat().st_size


def test_without_a_place_to_keep_them_the_tables_are_made_in_memory(store, cache, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "file"))
    assert ask(store("one"), "SELECT run_id FROM runs").rows == (("one",),)


def test_nothing_but_the_tables_and_their_lock_is_left_in_the_cache(store, cache):
    results = store("one")
    for _ in range(3):
        ask(results, "SELECT 1")
    os.utime(results, (1, 1))
    ask(results, "SELECT 1")
    assert sorted(file.suffix for file in (cache / "records").iterdir()) == [".duckdb", ".lock"]


def test_values_that_no_column_holds_keep_one_run_out_of_the_tables(store, monkeypatch, caplog):
    """The reader refuses what is too large for a column; should one slip through, the others are there all the same."""
    results = store("one", samples={})
    store("two", samples={"issued": 7})
    store("three", samples={})
    monkeypatch.setitem(index._COLUMNS, "samples", "MAP(VARCHAR, STRUCT(a BIGINT))")
    assert [folder.name for folder in folders_where(results)] == ["one", "three"]
    assert "1 run skipped: " in caplog.text
