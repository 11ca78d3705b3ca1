import json
import random

import pytest
from mlbench_llama3_1_8b.graphs import OFFICIAL_CONFIG
from mlbench_llama3_1_8b.mini_profile import DATA, END_TOKENS, START_TOKEN, MiniProfile
from mlbench_recipes.corpus_news import article_of_course
from mlbench_recipes.language_training import is_held_out
from mlbench_recipes.llama3_1_8b.recipe import SPECIAL_TOKENS


@pytest.fixture(scope="module")
def rows():
    return json.loads((MiniProfile.shipped().folder / DATA).read_text())


def test_rows_are_those_of_the_official_table(rows, golden):
    official = json.loads((golden / "cnn_eval.json").read_text())[0]
    assert all(list(row) == list(official) for row in rows)
    assert {json.dumps(row["instruction"]) for row in rows} == {json.dumps(official["instruction"])}
    assert len({row["input"] for row in rows}) == len(rows) == 66


def test_the_articles_are_others_than_those_of_gpt_j(rows):
    from mlbench_gptj import mini_profile as gptj

    others = json.loads((gptj.MiniProfile.shipped().folder / gptj.DATA).read_text())
    assert {row["input"] for row in rows}.isdisjoint(row["input"] for row in others)


def test_special_tokens_come_last_and_only_the_first_is_put_in_front(rows):
    tokenizer = MiniProfile.shipped().tokenizer()
    ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
    assert ids == [START_TOKEN, *END_TOKENS] == list(range(1020, 1024))
    assert tokenizer.get_vocab_size() == 1024
    for row in rows:
        assert row["tok_input"][0] == START_TOKEN
        assert not set(row["tok_input"]) & set(END_TOKENS)
        assert row["input"] in tokenizer.decode(row["tok_input"])


def test_the_shipped_angles_are_the_official_ones():
    config = json.loads((MiniProfile.shipped().folder / "config.json").read_text())
    assert config["rope_parameters"] == OFFICIAL_CONFIG["rope_parameters"]
    assert config["max_position_embeddings"] == OFFICIAL_CONFIG["max_position_embeddings"]
    assert config["num_attention_heads"] == 2 * config["num_key_value_heads"]


def test_no_validation_article_is_trained_on(rows):
    chance = random.Random(1)
    assert all(is_held_out(row["input"]) for row in rows)
    assert not any(is_held_out(article_of_course(chance, share / 100).text) for share in range(100))
