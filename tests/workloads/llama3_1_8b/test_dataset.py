import json

import pytest
from mlbench_llama3_1_8b.dataset import TokenisedArticles

from mlbench import DataError


def test_a_row_of_the_official_table_is_a_sample(golden):
    row = json.loads((golden / "cnn_eval.json").read_text())[3]
    articles = TokenisedArticles(golden / "cnn_eval.json", count=12)
    assert articles.count == articles.performance_count == 12
    assert articles.sample(3).tokens.tolist() == row["tok_input"]
    assert articles.sample(3).stop == ()
    assert articles.references[3] == row["output"]


@pytest.mark.parametrize("count", [13368, 5000])
def test_another_number_of_articles_than_the_official_one_is_refused(golden, count):
    with pytest.raises(DataError, match=f"has 12 samples, the official data set {count}"):
        TokenisedArticles(golden / "cnn_eval.json", count=count)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"output": "a", "tok_input": [1] * 8001}, "sample 0 has 8001 tokens, more than 8000"),
        ({"output": "a", "tok_input": []}, "empty token list"),
        ({"output": "a", "input": "GPT-J's table has no tokens"}, "no column 'tok_input'"),
        ({"tok_input": [1]}, "no column 'output'"),
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path, row, complaint):
    path = tmp_path / "cnn_eval.json"
    path.write_text(json.dumps([row]))
    with pytest.raises(DataError, match=complaint):
        TokenisedArticles(path)
