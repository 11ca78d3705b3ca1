import subprocess
import sys

import numpy as np
import pytest
from mlbench_dlrm_v2.criteo import Renumbering, convert, main, read_raw

from mlbench import DataError


@pytest.fixture
def raw(golden):
    return golden / "raw_to_npy" / "day_x"


@pytest.fixture
def expected(golden):
    return np.load(golden / "raw_to_npy" / "expected.npz")


def line(**changed):
    """A line of a click log: no click, every count 1, every value a; a changed field is named f and its place."""
    fields = ["0", *["1"] * 13, *["a"] * 26]
    for name, value in changed.items():
        fields[int(name[1:])] = value
    return "\t".join(fields) + "\n"


def test_rows_are_the_references(raw, expected):
    (rows,) = read_raw(raw)
    np.testing.assert_allclose(rows.dense, expected["dense"], atol=1e-6)
    np.testing.assert_array_equal(rows.sparse, expected["sparse_int32"])
    np.testing.assert_array_equal(rows.labels, expected["labels"])
    assert [part.dtype for part in (rows.dense, rows.sparse, rows.labels)] == ["float32", "int32", "int32"]


@pytest.mark.parametrize("together", [1, 5, 12])
def test_numbers_are_the_references_however_the_rows_come(expected, together):
    renumber, values = Renumbering(), expected["sparse_int32"]
    parts = [renumber(values[start : start + together]) for start in range(0, len(values), together)]
    np.testing.assert_array_equal(np.concatenate(parts), expected["sparse_contiguous"])


def test_a_value_keeps_its_number_on_the_next_day_and_other_columns_do_not_matter(tmp_path):
    (tmp_path / "day_0").write_text(line(f14="1f") + line(f14="2f"))
    (tmp_path / "day_1").write_text(line(f14="3f", f15="1f") + line(f14="1f"))
    convert([tmp_path / "day_0", tmp_path / "day_1"], tmp_path / "out")
    first, second = (np.load(tmp_path / "out" / f"day_{day}_sparse.npy") for day in (0, 1))
    assert first[:, 0].tolist() == [2, 3]
    assert second[:, 0].tolist() == [4, 2]
    assert second[:, 1].tolist() == [3, 2]


def test_files_of_a_day_are_written_by_the_command(raw, expected, tmp_path):
    command = [sys.executable, "-m", "mlbench_dlrm_v2.criteo", str(raw), "--out", str(tmp_path)]
    subprocess.run(command, check=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "day_x_dense.npy",
        "day_x_labels.npy",
        "day_x_sparse.npy",
    ]
    np.testing.assert_allclose(np.load(tmp_path / "day_x_dense.npy"), expected["dense"], atol=1e-6)
    np.testing.assert_array_equal(np.load(tmp_path / "day_x_sparse.npy"), expected["sparse_contiguous"])
    np.testing.assert_array_equal(np.load(tmp_path / "day_x_labels.npy"), expected["labels"])


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (line(f39="a\ta"), "line 2 of .*: 41 fields, not 40"),
        (line(f3="1.5"), "line 2 of .*: invalid literal"),
        (line(f20="xyz"), "line 2 of .*: invalid literal"),
        ("\n", "line 2 of .*: 1 fields, not 40"),
    ],
)
def test_a_malformed_line_is_named_and_leaves_no_file(tmp_path, broken, complaint):
    (tmp_path / "day_0").write_text(line() + broken)
    with pytest.raises(DataError, match=complaint):
        convert([tmp_path / "day_0"], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_missing_day_is_one_line_and_status_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["criteo", str(tmp_path / "day_9"), "--out", str(tmp_path / "out")])
    assert main() == 2
    assert (
        capsys.readouterr().err
        == f"error: click log cannot be read: {tmp_path / 'day_9'}: No such file or directory.\n"
    )


def test_an_empty_day_is_refused(tmp_path):
    (tmp_path / "day_0").touch()
    with pytest.raises(DataError, match=r"click log is empty: .*day_0"):
        convert([tmp_path / "day_0"], tmp_path / "out")
