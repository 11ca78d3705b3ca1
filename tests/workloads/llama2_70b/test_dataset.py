import gzip
import json

import pytest
from mlbench_llama2_70b.dataset import Conversations

from mlbench import DataError


def written(tmp_path, *rows):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize("name", ["pandas_1.5.pkl", "pandas_2.2_numpy_2.pkl"])
def test_a_row_of_the_official_pickle_is_a_sample(golden, name):
    data = Conversations(golden / name, count=4)
    assert data.count == data.performance_count == 4
    assert data.sample(2).tokens.tolist() == [1, 1, 17, 29871]
    assert data.sample(2).stop == ()
    assert data.references == ["Café", "", "x", "Red."]


def test_a_packed_pickle_is_read_too(golden, tmp_path):
    packed = tmp_path / "data.pkl.gz"
    packed.write_bytes(gzip.compress((golden / "pandas_1.5.pkl").read_bytes()))
    assert Conversations(packed).references[0] == "Café"


def test_the_fingerprint_tells_tables_apart(tmp_path):
    first = Conversations(written(tmp_path, {"output": "a", "tok_input": [1]})).fingerprint
    assert Conversations(written(tmp_path, {"output": "a", "tok_input": [1]})).fingerprint == first
    assert Conversations(written(tmp_path, {"output": "b", "tok_input": [1]})).fingerprint != first


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"output": "a", "tok_input": [1] * 1025}, "sample 0 has 1025 tokens, more than 1024"),
        ({"output": "a", "tok_input": []}, "empty token list"),
        ({"output": "a"}, "no column 'tok_input'"),
        ({"tok_input": [1]}, "no column 'output'"),
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path, row, complaint):
    with pytest.raises(DataError, match=complaint):
        Conversations(written(tmp_path, row))


def test_another_number_of_rows_than_the_official_one_is_refused(golden):
    with pytest.raises(DataError, match="has 4 samples, the official data set 24576"):
        Conversations(golden / "pandas_1.5.pkl", count=24576)
