import json
from pathlib import Path

import numpy as np
import pytest

from mlbench import DataError
from mlbench.toolkit.language import read_table

DATA = Path(__file__).parents[2] / "data"


def written(tmp_path, content):
    path = tmp_path / "table.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("workload", ["llama2_70b", "mixtral_8x7b"])
def test_json_and_pickle_are_the_same_table(workload):
    columns = {"llama2_70b": ("id", "output"), "mixtral_8x7b": ("dataset", "id", "gt_output")}[workload]
    as_json = read_table(DATA / workload / "dataset.json", texts=columns)
    as_pickle = read_table(DATA / workload / "dataset.pkl", texts=columns)
    assert as_json == as_pickle
    assert list(as_json.texts) == list(columns)


def test_token_lists_become_int64_arrays_in_both_forms(tmp_path):
    pickled = read_table(DATA / "llama2_70b" / "pandas_2.2_numpy_2.pkl", tokens=("tok_input",)).tokens["tok_input"]
    assert [ids.tolist() for ids in pickled][2] == [1, 1, 17, 29871]
    path = written(tmp_path, [{"tok_input": [1, 2], "other": None}, {"tok_input": [3]}])
    first, second = read_table(path, tokens=("tok_input",)).tokens["tok_input"]
    assert (first.tolist(), second.tolist(), first.dtype) == ([1, 2], [3], np.int64)


def test_a_number_in_a_column_of_text_is_taken_as_written(tmp_path):
    path = written(tmp_path, [{"gt_output": "12"}, {"gt_output": 14000}, {"gt_output": 0.5}])
    assert read_table(path, texts=("gt_output",)).texts["gt_output"] == ["12", "14000", "0.5"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[{", "is not JSON"),
        ("{}", "is not a list of objects"),
        ("[3]", "is not a list of objects"),
        ([], "contains no row"),
        ([{"tok": [1]}], r"no column 'text' in row 0\. It has: tok\."),
        ([{"text": "a", "tok": [1]}, {"text": "a"}], "no column 'tok' in row 1"),
        ([{"text": None, "tok": [1]}], "no text in column 'text', row 0: 'None'"),
        ('[{"text": NaN, "tok": [1]}]', "no text in column 'text', row 0: 'nan'"),
        ([{"text": "a", "tok": []}], "empty token list in column 'tok', row 0"),
        ([{"text": "a", "tok": [1, -1]}], "no token ids in column 'tok', row 0"),
        ([{"text": "a", "tok": [1, 2.5]}], "no token ids in column 'tok', row 0"),
        ([{"text": "a", "tok": [True]}], "no token ids in column 'tok', row 0"),
        ([{"text": "a", "tok": "1 2"}], "no token ids in column 'tok', row 0: '1 2'"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_line(tmp_path, content, complaint):
    with pytest.raises(DataError, match=complaint) as caught:
        read_table(written(tmp_path, content), texts=("text",), tokens=("tok",))
    assert "\n" not in str(caught.value)


def test_a_pickle_without_the_column_names_those_it_has():
    with pytest.raises(DataError, match=r"no column 'tok_input'\. It has: id, output\."):
        read_table(DATA / "llama2_70b" / "dataset.pkl", tokens=("tok_input",))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"table cannot be read: .*nowhere\.json: No such file"):
        read_table(tmp_path / "nowhere.json", texts=("text",))
