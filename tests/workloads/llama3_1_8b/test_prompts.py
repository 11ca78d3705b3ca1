"""Prompts against those that the official template and Hugging Face's tokenizer make (tests/data/llama3_1_8b)."""

import json

from mlbench_llama3_1_8b.mini_profile import START_TOKEN, MiniProfile
from mlbench_llama3_1_8b.prompts import prompt_text, prompt_tokens


def test_an_article_becomes_the_official_prompt(golden):
    tokenizer = MiniProfile.shipped().tokenizer()
    for row in json.loads((golden / "cnn_eval.json").read_text()):
        text = prompt_text(row["input"])
        assert text == row["instruction"]["llama"].replace("{input}", row["input"])
        tokens = prompt_tokens(text, tokenizer)
        assert tokens == row["tok_input"]
        assert tokens.count(START_TOKEN) == 1


def test_an_article_with_braces_stays_as_it_is():
    assert "{input} and {other}" in prompt_text("{input} and {other}")
