import json

import numpy as np
import pytest
from mlbench_dlrm_v2 import day_files
from mlbench_dlrm_v2.architecture import OFFICIAL_HOT_SIZES
from mlbench_dlrm_v2.day_files import DENSE, HOT, LABELS, Day, open_day, write_day

from mlbench import DataError

SIZES = (2, 1, 3)


def day(rows=5):
    rng = np.random.default_rng(0)
    hot = [rng.integers(9, size=(rows, size), dtype=np.int32) for size in SIZES]
    return Day(rng.random((rows, 13), dtype=np.float32), hot, rng.integers(2, size=(rows, 1), dtype=np.int32))


@pytest.fixture
def folder(tmp_path):
    write_day(tmp_path, day())
    return tmp_path


def test_rows_are_what_the_reference_batches(golden):
    case = json.loads((golden / "dataset_batch" / "expected.json").read_text())
    expected = np.load(golden / "dataset_batch" / "expected.npz")
    opened = open_day(golden / "dataset_batch", OFFICIAL_HOT_SIZES)
    assert len(opened) == case["rows_in_file"]
    ids = case["row_ids"]
    np.testing.assert_array_equal(opened.dense[ids], expected["dense"])
    np.testing.assert_array_equal(opened.labels[ids, 0], expected["labels"])
    np.testing.assert_array_equal(np.concatenate([part[ids].ravel() for part in opened.hot]), expected["values"])


def test_what_is_written_is_read_by_numpy_and_by_memory_map(folder):
    written, opened, archive = day(), open_day(folder, SIZES), np.load(folder / HOT)
    for number, part in enumerate(written.hot):
        np.testing.assert_array_equal(archive[str(number)], part)
        np.testing.assert_array_equal(opened.hot[number], part)
    np.testing.assert_array_equal(opened.dense, written.dense)
    np.testing.assert_array_equal(opened.labels, written.labels)


def test_nothing_is_copied(folder):
    opened = open_day(folder, SIZES)
    for array in (opened.dense, opened.labels, *opened.hot):
        assert type(array) is np.ndarray
        assert isinstance(array.base, np.memmap)
        assert not array.flags.writeable


@pytest.mark.parametrize("row", [0, -1])
def test_the_fingerprint_changes_with_the_first_and_the_last_row_of_any_file(folder, row, monkeypatch):
    monkeypatch.setattr(day_files, "HASHED_ROWS", 1)
    before = open_day(folder, SIZES).fingerprint()
    assert open_day(folder, SIZES).fingerprint() == before
    found = {before}
    for change in ("dense", "hot", "labels"):
        changed = day()
        array = changed.hot[2] if change == "hot" else getattr(changed, change)
        array[row] += 1
        write_day(folder, changed)
        found.add(open_day(folder, SIZES).fingerprint())
    assert len(found) == 4


def broken_archive(folder, **arrays):
    good = {str(number): part for number, part in enumerate(day().hot)}
    np.savez(folder / HOT, **{name: array for name, array in {**good, **arrays}.items() if array is not None})


BROKEN = {
    "no dense features": (lambda f: (f / DENSE).unlink(), rf"data file not found: .*{DENSE}"),
    "no labels": (lambda f: (f / LABELS).unlink(), rf"data file not found: .*{LABELS}"),
    "no archive": (lambda f: (f / HOT).unlink(), rf"data file not found: .*{HOT}"),
    "a feature missing": (lambda f: broken_archive(f, **{"1": None}), "has no array '1'"),
    "indices of 64 bits": (
        lambda f: broken_archive(f, **{"2": day().hot[2].astype(np.int64)}),
        r"\[2\] is int64 \(5, 3\), not int32 \(rows, 3\)",
    ),
    "another hot size": (
        lambda f: broken_archive(f, **{"0": day().hot[2]}),
        r"\[0\] is int32 \(5, 3\), not int32 \(rows, 2\)",
    ),
    "one axis": (lambda f: broken_archive(f, **{"1": np.zeros(5, np.int32)}), r"\[1\] is int32 \(5,\)"),
    "column by column": (
        lambda f: broken_archive(f, **{"0": np.asfortranarray(day().hot[0])}),
        r"\[0\] is int32 \(5, 2\), column by column, not int32",
    ),
    "compressed": (
        lambda f: np.savez_compressed(f / HOT, **{str(n): part for n, part in enumerate(day().hot)}),
        r"is compressed\. Write it with numpy\.savez",
    ),
    "dense features of 64 bits": (lambda f: np.save(f / DENSE, day().dense.astype(float)), "is float64"),
    "fewer labels": (lambda f: np.save(f / LABELS, day(4).labels), f"{LABELS} has 4 rows, {DENSE} has 5"),
    "more indices": (
        lambda f: broken_archive(f, **{"1": day(6).hot[1]}),
        rf"{HOT}\[1\] has 6 rows, {DENSE} has 5",
    ),
    "archive cut short": (
        lambda f: (f / HOT).write_bytes((f / HOT).read_bytes()[:-30]),
        "is not an npz archive, or cut short",
    ),
    "labels cut short": (
        lambda f: (f / LABELS).write_bytes((f / LABELS).read_bytes()[:-1]),
        "is not an npy array, or cut short",
    ),
    "text": (lambda f: (f / DENSE).write_text("no array"), "is not an npy array, or cut short"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_in_one_line(folder, case):
    breaks, complaint = BROKEN[case]
    breaks(folder)
    with pytest.raises(DataError, match=complaint) as caught:
        open_day(folder, SIZES)
    assert "\n" not in str(caught.value)


def test_an_empty_day_is_refused(tmp_path):
    write_day(tmp_path, day(0))
    with pytest.raises(DataError, match=r"has no rows|is not an npy array"):
        open_day(tmp_path, SIZES)
