import json

import pytest
from mlbench_mixtral_8x7b.dataset import MixedPrompts, Task

from mlbench import DataError

ROWS = [
    {"dataset": "OpenOrca", "id": "flan.1", "gt_output": "Red.", "tok_input": [1, 1, 5], "tok_stop_sequence": [2]},
    {"dataset": "GSM8K", "id": "train.2", "gt_output": 14000, "tok_input": [1, 1, 6], "tok_stop_sequence": [2]},
    {
        "dataset": "MBXP",
        "id": "python_add",
        "gt_output": "def check(f): ...",
        "tok_input": [1, 1, 7, 8],
        "tok_stop_sequence": [13, 13940, 28832, 13],
    },
]


def written(tmp_path, rows):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(rows))
    return path


def test_a_row_is_a_sample_and_says_what_it_is_scored_against(tmp_path):
    data = MixedPrompts(written(tmp_path, ROWS), count=3)
    assert data.count == data.performance_count == 3
    assert data.sample(2).tokens.tolist() == [1, 1, 7, 8]
    assert data.tasks[1] == Task(dataset="GSM8K", id="train.2", truth="14000")


def test_only_programs_end_with_their_stop_sequence(tmp_path):
    data = MixedPrompts(written(tmp_path, ROWS))
    assert [data.sample(index).stop for index in range(3)] == [(), (), (13, 13940, 28832, 13)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"dataset": "HumanEval"}, "unknown data set 'HumanEval'"),
        ({"tok_input": [1] * 2049}, "sample 0 has 2049 tokens, more than 2048"),
        ({"tok_input": []}, "empty token list"),
        ({"gt_output": None}, "no text in column 'gt_output', row 0"),
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path, change, complaint):
    with pytest.raises(DataError, match=complaint):
        MixedPrompts(written(tmp_path, [{**ROWS[0], **change}]))


def test_a_table_without_stop_sequences_is_refused(golden):
    with pytest.raises(DataError, match="no column 'tok_input'"):
        MixedPrompts(golden / "dataset.pkl")


def test_another_number_of_rows_than_the_official_one_is_refused(tmp_path):
    with pytest.raises(DataError, match="has 3 samples, the official data set 15000"):
        MixedPrompts(written(tmp_path, ROWS), count=15000)
