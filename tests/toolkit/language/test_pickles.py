"""Pickled tables; the files `pandas_*.pkl` were written by the pandas and NumPy that they are named for."""

import gzip
import json
import pickle
from pathlib import Path

import mlbench_llama2_70b
import numpy as np
import pytest

from mlbench import DataError
from mlbench.toolkit.language.pickles import _arrow_texts, read_pickled_table

DATA = Path(__file__).parents[2] / "data"

# five rows, two drawn of each origin, as the official tables were put together
DRAWN = {
    "id": ["cot.2", "cot.4", "flan.5", "flan.1"],
    "output": ["Café", "", "x", "Red."],
    "tok_input": [[1, 1, 6, 8, 29871], [1, 1, 11, 12, 13, 29871], [1, 1, 17, 29871], [1, 1, 5, 29871]],
    "tok_output": [[1, 9, 10], [1, 14, 15, 16], [1, 18], [1, 7]],
    "tok_input_length": [5, 6, 4, 4],
    "origin": ["cot", "cot", "flan", "flan"],
    "tok_output_length": [3, 4, 2, 2],
}


@pytest.mark.parametrize("name", ["pandas_1.5.pkl", "pandas_2.2_numpy_2.pkl"])
def test_columns_of_text_lists_and_numbers_come_back_in_order(name):
    table = read_pickled_table(DATA / "llama2_70b" / name)
    assert table == DRAWN
    assert list(table) == list(DRAWN)


@pytest.mark.parametrize("protocol", [4, 5])
def test_numbers_stored_column_by_column_are_not_mixed_up(protocol):
    table = read_pickled_table(DATA / "llama2_70b" / f"pandas_2.2_protocol_{protocol}_by_column.pkl")
    assert table == {"first": [0, 2, 4], "second": [1, 3, 5]}


@pytest.mark.parametrize("workload", ["llama2_70b", "mixtral_8x7b"])
def test_an_official_pickle_holds_what_the_same_table_as_json_holds(workload):
    rows = json.loads((DATA / workload / "dataset.json").read_text())
    table = read_pickled_table(DATA / workload / "dataset.pkl")
    assert table == {name: [row[name] for row in rows] for name in table}
    assert set(table) == set(rows[0])


def test_text_columns_of_pandas_3_are_read_from_arrows_memory():
    """`pandas_3.1.pkl` has eight rows of the mini data, written by pandas 3.1.1."""
    rows = json.loads((Path(mlbench_llama2_70b.__file__).parent / "mini/dataset.json").read_text())[:8]
    table = read_pickled_table(DATA / "llama2_70b" / "pandas_3.1.pkl")
    assert {"output", "tok_input"} < set(table)
    assert table == {name: [row[name] for row in rows] for name in table}


def arrow(*parts):
    return (*parts, [], None)


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        (("string", 2, 0, 0, [None, np.array([0, 1, 3], "<i4").tobytes(), b"abc"]), ["a", "bc"]),
        (("large_string", 1, 0, 1, [None, np.array([0, 1, 3], "<i8").tobytes(), b"abc"]), ["bc"]),
        (("string", 2, 1, 0, [b"\x02", np.array([0, 1, 3], "<i4").tobytes(), b"abc"]), [None, "bc"]),
        (("string", 0, 0, 0, [None, np.array([0], "<i4").tobytes(), None]), []),
    ],
)
def test_arrows_texts_are_cut_where_it_says(parts, texts):
    assert _arrow_texts(arrow(*parts)) == texts


def test_a_class_that_is_not_known_names_the_way_out(tmp_path):
    path = tmp_path / "table.pkl"
    path.write_bytes(b"\x80\x05\x8c\x06pandas\x8c\x0bCategorical\x93.")
    with pytest.raises(DataError, match=r"it wants pandas\.Categorical.*Save it again as JSON"):
        read_pickled_table(path)
    path.write_bytes(b"\x80\x05\x8c\x0bpyarrow.lib\x8c\x09py_buffer\x93K\x05\x85R.")
    with pytest.raises(DataError, match="a piece of its memory is not bytes"):
        read_pickled_table(path)


def test_a_gzipped_pickle_is_unpacked(tmp_path):
    packed = tmp_path / "table.pkl.gz"
    packed.write_bytes(gzip.compress((DATA / "llama2_70b" / "pandas_2.2_numpy_2.pkl").read_bytes()))
    assert read_pickled_table(packed) == DRAWN


class Dangerous:
    """Would leave a file behind if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


class TestForeignFiles:
    def read(self, tmp_path, content):
        path = tmp_path / "table.pkl"
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"table\.pkl is not a pickled pandas table") as caught:
            read_pickled_table(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_a_foreign_class_is_named_and_not_called(self, tmp_path):
        message = self.read(tmp_path, pickle.dumps(Dangerous(tmp_path / "proof")))
        assert "it wants pathlib." in message
        assert not (tmp_path / "proof").exists()

    @pytest.mark.parametrize("name", ["builtins\neval", "os\nsystem", "numpy\nload", "pandas.io.pickle\nread_pickle"])
    def test_a_function_of_a_known_library_is_refused_too(self, tmp_path, name):
        assert f"it wants {name.replace(chr(10), '.')}" in self.read(tmp_path, f"c{name}\n(S'x'\ntR.".encode())

    def test_a_name_with_dots_reaches_nothing(self, tmp_path):
        program = b"\x80\x04\x8c\x08builtins\x8c\x0fslice.__class__\x93."
        assert "it wants builtins.slice.__class__" in self.read(tmp_path, program)

    @pytest.mark.parametrize("value", [[1, 2], {"tok_input": [[1]]}, "text", None])
    def test_another_value_than_a_table_is_refused(self, tmp_path, value):
        assert f"it contains a {type(value).__name__}" in self.read(tmp_path, pickle.dumps(value))

    def test_an_array_of_dates_is_refused(self, tmp_path):
        assert "elements of type M8" in self.read(tmp_path, pickle.dumps(np.zeros(3, "datetime64[s]"), protocol=4))

    def test_numbers_in_the_other_byte_order_are_refused(self, tmp_path):
        assert "byte order >" in self.read(tmp_path, pickle.dumps(np.zeros(3, ">i8"), protocol=4))

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.99])
    def test_a_file_cut_short_is_refused(self, tmp_path, share):
        content = (DATA / "llama2_70b" / "dataset.pkl").read_bytes()
        self.read(tmp_path, content[: int(len(content) * share)])

    def test_a_gzip_file_cut_short_is_refused(self, tmp_path):
        self.read(tmp_path, gzip.compress((DATA / "llama2_70b" / "dataset.pkl").read_bytes())[:200])

    def test_a_file_that_is_something_else_is_refused(self, tmp_path):
        self.read(tmp_path, b'[{"output": "text"}]')


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"table cannot be read: .*nowhere\.pkl: No such file"):
        read_pickled_table(tmp_path / "nowhere.pkl")
