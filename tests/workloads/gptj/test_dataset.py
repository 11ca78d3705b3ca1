import json

import pytest
from mlbench_gptj.dataset import Articles
from mlbench_gptj.prompts import prompt_text
from tokenizers import Tokenizer

from mlbench import DataError


@pytest.fixture(scope="module")
def tokenizer(golden):
    return Tokenizer.from_file(str(golden / "tokenizer.json"))


@pytest.fixture
def articles(golden, tokenizer):
    return Articles(golden / "cnn_eval.json", tokenizer)


def test_a_sample_is_the_prompt_of_an_article(golden, tokenizer, articles):
    row = json.loads((golden / "cnn_eval.json").read_text())[3]
    articles.load([3])
    assert articles.count == articles.performance_count == 12
    assert tokenizer.decode(articles.sample(3).tokens.tolist()) == prompt_text(row["instruction"], row["input"])
    assert articles.sample(3).stop == ()
    assert articles.references[3] == row["output"]


def test_an_article_that_was_let_go_must_be_loaded_again(articles):
    articles.load([3, 4])
    articles.unload([3])
    with pytest.raises(KeyError):
        articles.sample(3)
    assert len(articles.sample(4).tokens) > 100


def test_the_fingerprint_tells_articles_and_tokenizers_apart(golden, tokenizer, articles):
    other = Tokenizer.from_file(str(golden / "prompt_encode" / "tokenizer.json"))
    fingerprints = {
        articles.fingerprint,
        Articles(golden / "cnn_eval.json", tokenizer).fingerprint,
        Articles(golden / "cnn_eval.json", other).fingerprint,
        Articles(golden / "prompt_encode" / "cnn_eval.json", tokenizer).fingerprint,
    }
    assert len(fingerprints) == 3


def test_another_number_of_articles_than_the_official_one_is_refused(golden, tokenizer):
    with pytest.raises(DataError, match="has 12 samples, the official data set 13368"):
        Articles(golden / "cnn_eval.json", tokenizer, count=13368)


def test_a_file_without_highlights_is_refused(tmp_path, tokenizer):
    path = tmp_path / "cnn_eval.json"
    path.write_text('[{"instruction": "a", "input": "b"}]')
    with pytest.raises(DataError, match="no column 'output' in row 0"):
        Articles(path, tokenizer)
