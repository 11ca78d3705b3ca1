"""Prompts against what the MLPerf Inference v4.1 reference made (tests/data/gptj/README.md)."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from mlbench_gptj.prompts import LONGEST_PROMPT, prompt_text, prompt_tokens
from tokenizers import Tokenizer

CASE = Path(__file__).parents[2] / "data" / "gptj" / "prompt_encode"
ARTICLES = json.loads((CASE / "cnn_eval.json").read_text())
EXPECTED = json.loads((CASE / "expected.json").read_text())


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(CASE / "tokenizer.json"))


@pytest.mark.parametrize("index", range(len(ARTICLES)))
def test_an_article_becomes_the_official_prompt(tokenizer, index):
    article, wanted = ARTICLES[index], EXPECTED["cases"][index]
    text = prompt_text(article["instruction"], article["input"])
    tokens = prompt_tokens(text, tokenizer)
    assert hashlib.sha256(text.encode()).hexdigest() == wanted["prompt_sha256"]
    assert hashlib.sha256(np.array(tokens, "<i8").tobytes()).hexdigest() == wanted["input_ids_sha256_le_int64"]
    assert len(tokens) == wanted["n_input_ids"]


def test_the_limit_is_the_official_one_and_a_longer_article_loses_its_end(tokenizer):
    assert EXPECTED["max_length"] == LONGEST_PROMPT
    article = max(ARTICLES, key=lambda article: len(article["input"]))
    text = prompt_text(article["instruction"], article["input"])
    tokens = prompt_tokens(text, tokenizer)
    assert len(tokens) == 1919
    assert text.startswith(tokenizer.decode(tokens[:-1]))
    assert not tokenizer.decode(tokens).endswith("### Response:")
