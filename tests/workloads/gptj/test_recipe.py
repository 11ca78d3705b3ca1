import json
import random
import re

import pytest
from mlbench_gptj.mini_profile import DATA, END_TOKEN, MiniProfile
from mlbench_recipes.corpus_news import article_of_course, full_article
from mlbench_recipes.language_training import is_held_out


@pytest.fixture(scope="module")
def rows():
    return json.loads((MiniProfile.shipped().folder / DATA).read_text())


def test_articles_have_the_official_form(rows):
    assert all(list(row) == ["instruction", "input", "output"] for row in rows)
    assert {row["instruction"] for row in rows} == {"Summarize the following news article:"}
    assert len({row["input"] for row in rows}) == len(rows) == 66
    assert all(line.endswith(" .") for row in rows for line in row["output"].split("\n"))


def words(text):
    return set(re.findall(r"\w+", text))


def test_every_name_and_number_of_a_highlight_stands_in_one_sentence_of_the_article_in_order(rows):
    for row in rows:
        sentences = list(map(words, re.split(r"(?<=\.) ", row["input"])))
        places = []
        for line in row["output"].split("\n"):
            facts = set(re.findall(r"[A-Z]\w+|\d+", line)) - {"Fire", "Museum"}
            place = max(range(2, len(sentences)), key=lambda number: len(words(line) & sentences[number]))
            assert facts <= sentences[place], line
            places.append(place)
        assert places == sorted(set(places))


def test_the_first_two_sentences_are_no_news(rows):
    for row in rows:
        lead = " ".join(re.split(r"(?<=\.) ", row["input"])[:2])
        for line in row["output"].split("\n"):
            assert not set(re.findall(r"[A-Z]\w+|\d+", line)) <= words(lead)


def test_a_digit_is_a_token_and_the_end_is_the_last_one():
    tokenizer = MiniProfile.shipped().tokenizer()
    assert tokenizer.encode("Fire destroys 47 houses").tokens[-3:-1] == ["4", "7"]
    assert tokenizer.token_to_id("<|endoftext|>") == END_TOKEN == tokenizer.get_vocab_size() - 1


def test_highlights_are_longer_than_the_fewest_tokens_that_may_be_generated(rows):
    lengths = [len(MiniProfile.shipped().tokenizer().encode(row["output"]).ids) for row in rows]
    assert min(lengths) >= 30
    assert max(lengths) < 80


def test_no_validation_article_is_trained_on(rows):
    articles, chance = {row["input"] for row in rows}, random.Random(1)
    trained = [full_article(chance, held_out=False) for _ in range(2000)]
    assert articles.isdisjoint(article.text for article in trained)
    assert all(is_held_out(text) for text in articles)
    assert not any(is_held_out(article.text) for article in trained)


def test_the_training_begins_with_short_articles():
    chance = random.Random(1)
    short = [article_of_course(chance, 0.2).text for _ in range(200)]
    full = [full_article(chance, held_out=False).text for _ in range(200)]
    assert max(map(len, short)) < sorted(map(len, full))[100]
