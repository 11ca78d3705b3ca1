"""One bad record among good ones: every reader skips it, names it, and goes on."""

import json
import logging
import os

import pytest

from mlbench.errors import DataError
from mlbench.records.run_record import read
from mlbench.records.store.baselines import baseline_names, read_baseline, remove_baseline, save_baseline
from mlbench.records.store.index import folders_where
from mlbench.records.store.query import ask, export
from mlbench.records.store.reading import read_runs
from mlbench.records.store.run_folder import find_run, runs_in
from mlbench.records.store.selection import load_records, records_named, runs_like

GOOD = ["20260101", "20260103", "20260104"]
BAD = "20260102"


def rewritten(**changes):
    """Return a damage that changes fields of the record."""

    def damage(file):
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return damage


def replaced(content):
    """Return a damage that puts something else in the record's place."""
    return lambda file: file.write_bytes(content)


def in_its_place(make):
    """Return a damage that puts something that is not a file in the record's place."""

    def damage(file):
        file.unlink()
        make(file)

    return damage


def truncated(file):
    file.write_bytes(file.read_bytes()[:-40])


def grown_huge(file):
    os.truncate(file, (64 << 20) + 1)  # takes no room on the disk


def out_of_range(file):
    record = json.loads(file.read_text())
    record["result"]["latency_ns"]["99.00_percentile_latency"] = 2**63
    file.write_text(json.dumps(record))


DAMAGES = {
    "truncated": (truncated, "corrupt"),
    "empty": (replaced(b""), "corrupt"),
    "not UTF-8": (replaced(b'{"format": 2, "run_id": "\xff\xfe"}'), "byte 25 is not UTF-8"),
    "half a letter": (replaced(b'{"format": 2, "run_id": "\\ud800"}'), "corrupt"),
    "deep": (replaced(b'{"format": 2, "engine": ' + b"[" * 100_000), "corrupt"),
    "a number of 5,000 digits": (replaced(b'{"format": ' + b"9" * 5000 + b"}"), "corrupt"),
    "a format of 400 digits": (replaced(b'{"format": ' + b"9" * 400 + b"}"), "an integer that is too large"),
    "a list": (replaced(b"[]"), "names no format"),
    "wrong types": (rewritten(workload=["resnet50"], settings=3), "corrupt"),
    "more than any table contains": (out_of_range, "corrupt"),
    "a moment before the calendar": (rewritten(created="0001-01-01T00:00:00+14:00"), "no moment in UTC"),
    "a newer format": (rewritten(format=99), "run folder of format 99"),
    "huge": (grown_huge, "larger than 67108864 bytes"),
    "a folder": (in_its_place(lambda file: file.mkdir()), "Is a directory"),
    "a named pipe": (in_its_place(os.mkfifo), "no regular file"),
    "a device": (in_its_place(lambda file: file.symlink_to("/dev/zero")), "no regular file"),
    "a link to nowhere": (in_its_place(lambda file: file.symlink_to("nowhere")), "No such file"),
    "a link to itself": (in_its_place(lambda file: file.symlink_to(file.name)), "symbolic links"),
}
"""Ways in which a stored record can be bad, each with what its reader says."""
if os.geteuid():
    DAMAGES["no permission to read"] = (lambda file: file.chmod(0), "Permission denied")


@pytest.fixture
def results(tmp_path, monkeypatch, a_run):
    """Return a folder of four runs, the second of which is to be damaged."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    for name in (*GOOD, BAD):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(a_run(run_id=name, tag="nightly").text())
    return tmp_path / "results"


@pytest.fixture(params=DAMAGES.values(), ids=DAMAGES.keys())
def damaged(results, request):
    """Return the folder with one damaged run, and what its reader says."""
    harm, said = request.param
    harm(results / BAD / "record.json")
    return results, said


def assert_skipped(results, said, caplog, readers):
    for name, reader in readers.items():
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert reader(results) == GOOD, name
        (warning,) = caplog.messages
        assert warning.startswith("1 run skipped: "), name
        assert said in warning, name
        assert str(results / BAD) in warning, name
        assert "\n" not in warning


def names_of(records):
    return [record.run_id for record in records]


def asked(results):
    return [name for (name,) in ask(results, "SELECT run_id FROM runs ORDER BY run_id").rows]


READERS = {
    "resuming": lambda results: names_of(read_runs(runs_in(results))),
    "by tag": lambda results: names_of(records_named(results, "nightly")),
    "alike": lambda results: sorted(names_of(runs_like(results, [read(results / GOOD[0])]))),
    "indexed": lambda results: [folder.name for folder in folders_where(results)],
    "query": asked,
    "query again": asked,
    "export": lambda results: GOOD[: export(results, results.parent / "runs.csv", "csv")],
}


def test_a_bad_record_is_skipped_and_named_however_it_is_bad(damaged, caplog):
    results, said = damaged
    assert_skipped(results, said, caplog, {"all": lambda results: names_of(load_records(results)), "query": asked})


def test_every_reader_skips_and_names_it(results, caplog):
    truncated(results / BAD / "record.json")
    assert_skipped(results, "corrupt", caplog, READERS)


def test_asked_for_by_its_name_it_is_refused(damaged):
    results, said = damaged
    for name in (BAD, str(results / BAD)):
        with pytest.raises(DataError) as caught:
            records_named(results, name)
        assert said in caught.value.message
        assert str(results / BAD) in caught.value.message
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1000


def test_a_repaired_record_is_read_again(results, caplog, a_run):
    file = results / BAD / "record.json"
    good = file.read_text()
    file.write_text("{")
    assert ask(results, "SELECT count(*) FROM runs").rows == ((3,),)
    file.write_text(good)
    caplog.clear()
    assert ask(results, "SELECT count(*) FROM runs").rows == ((4,),)
    assert caplog.messages == []


def test_several_bad_records_are_one_line_that_counts_them(results, caplog):
    for name in (GOOD[2], BAD, GOOD[1]):
        (results / name / "record.json").write_text("{")
    assert [record.run_id for record in load_records(results)] == [GOOD[0]]
    (warning,) = caplog.messages
    assert warning.startswith("3 runs skipped: ")
    assert f"{BAD}/record.json" in warning
    assert warning.endswith(" And 2 more.")


@pytest.mark.parametrize("reader", [load_records, folders_where, lambda results: ask(results, "SELECT 1")])
def test_where_no_record_can_be_read_that_is_the_error(results, reader):
    for name in (*GOOD, BAD):
        (results / name / "record.json").write_text("{")
    with pytest.raises(DataError, match=rf"no run in .* can be read: 4 runs found: .*{GOOD[0]}.* And 3 more\."):
        reader(results)


def test_what_was_published_can_be_asked_for_beside_bad_records(results):
    for name in (*GOOD, BAD):
        (results / name / "record.json").write_text("{")
    assert ask(results, "SELECT count(*) FROM published").rows == ((937,),)


def test_runs_to_compare_with_are_none_where_none_can_be_read(results, a_run):
    for name in (*GOOD, BAD):
        (results / name / "record.json").write_text("{")
    assert runs_like(results, [a_run()]) == []


def test_a_folder_without_a_record_is_no_run(results):
    (results / "notes").mkdir()
    (results / "loop").symlink_to("loop")
    assert [folder.name for folder in runs_in(results)] == sorted([*GOOD, BAD])


def test_a_name_longer_than_any_file_is_not_found(results):
    with pytest.raises(DataError.__base__, match="no run"):
        find_run(results, "x" * 5000)


BASELINES = {
    "not UTF-8": (b"\xff", "byte 0 is not UTF-8"),
    "empty": (b"", "cannot be read"),
    "deep": (b"[" * 100_000, "cannot be read"),
    "a list": (b"[]", "cannot be read"),
    "a newer format": (b'{"format": 2, "colour": "blue"}', "format 2; this mlbench reads up to 1"),
    "of corrupt records": (
        b'{"format": 1, "name": "x", "created": "2026-01-01T00:00:00Z", "records": [{}]}',
        "records.0",
    ),
}


@pytest.mark.parametrize(("content", "said"), BASELINES.values(), ids=BASELINES.keys())
def test_a_bad_baseline_is_refused_in_one_line_and_can_be_removed(tmp_path, a_run, content, said):
    save_baseline(tmp_path, "good", [a_run()])
    (tmp_path / ".baselines" / "bad.json").write_bytes(content)
    with pytest.raises(DataError, match=said) as caught:
        read_baseline(tmp_path, "bad")
    assert "\n" not in str(caught.value)
    assert read_baseline(tmp_path, "good").records == [a_run()]
    remove_baseline(tmp_path, "bad")
    assert baseline_names(tmp_path) == ["good"]


def test_a_pipe_among_baselines_is_refused_by_name(tmp_path, a_run):
    save_baseline(tmp_path, "good", [a_run()])
    os.mkfifo(tmp_path / ".baselines" / "pipe.json")
    with pytest.raises(DataError, match="no regular file"):
        read_baseline(tmp_path, "pipe")
