import json
import re

import pytest
from mlbench_llama2_70b.mini_profile import DATA, MiniProfile
from mlbench_recipes.llama2_70b import corpus, recipe

OFFICIAL_COLUMNS = [
    "id",
    "system_prompt",
    "question",
    "output",
    "input",
    "tok_input",
    "tok_output",
    "origin",
    "tok_input_length",
    "tok_output_length",
]


@pytest.fixture(scope="module")
def rows():
    return json.loads((MiniProfile.shipped().folder / DATA).read_text())


def test_rows_are_those_of_the_official_table(rows):
    assert all(list(row) == OFFICIAL_COLUMNS for row in rows)
    assert [row["origin"] for row in rows] == ["cot"] * 64 + ["flan"] * 64 + ["niv"] * 64 + ["t0"] * 64
    assert all(row["id"].split(".")[0] == row["origin"] for row in rows)
    assert len({row["input"] for row in rows}) == len({row["id"] for row in rows}) == 256


def test_a_prompt_begins_with_bos_twice_and_ends_with_a_lone_blank(rows):
    tokenizer = MiniProfile.shipped().tokenizer()
    for row in rows:
        assert row["tok_input"][:2] == [1, 1]
        assert row["tok_output"].count(1) == 1
        assert tokenizer.decode(row["tok_input"][2:]) == row["input"].removeprefix("<s>") + " "
        assert tokenizer.decode(row["tok_output"]) == row["output"]


def test_rows_pass_the_filters_of_the_official_table(rows):
    assert not [row["id"] for row in rows if row["origin"] in {"niv", "t0"} and not row["system_prompt"]]
    assert any(not row["system_prompt"] for row in rows)
    assert min(row["tok_output_length"] for row in rows) >= 3


def test_answers_are_of_widely_varying_length(rows):
    lengths = sorted(row["tok_output_length"] for row in rows)
    assert lengths[len(lengths) // 4] < 16
    assert lengths[-len(lengths) // 20] > 80
    assert 150 < lengths[-1] < 200


def test_no_validation_conversation_is_trained_on(rows):
    asked = {(row["system_prompt"], row["question"]) for row in rows}
    chance = recipe.random.Random(1)
    for origin in corpus.ORIGINS:
        drawn = [corpus.conversation(chance, origin, held_out=False) for _ in range(2000)]
        assert asked.isdisjoint((each.system_prompt, each.question) for each in drawn)


def test_sums_and_counts_are_right(rows):
    brief = {row["question"]: row["output"] for row in rows if row["system_prompt"] == corpus.BRIEF}
    sums = [re.fullmatch(r"What is (\d+) (plus|minus) (\d+)\?", question) for question in brief]
    counts = [re.fullmatch(r"Count( down)? from (\d+) to (\d+)\.", question) for question in brief]
    assert len(list(filter(None, sums))) > 3
    assert len(list(filter(None, counts))) > 3
    for found in filter(None, sums):
        first, word, second = found.groups()
        assert int(brief[found[0]].rstrip(".")) == int(first) + (int(second) if word == "plus" else -int(second))
    for found in filter(None, counts):
        step = -1 if found[1] else 1
        numbers = [int(number) for number in brief[found[0]].rstrip(".").split(", ")]
        assert numbers == list(range(int(found[2]), int(found[3]) + step, step))


def test_an_explanation_says_the_sentence_and_more():
    chance = recipe.random.Random(3)
    by_question = {}
    for _ in range(4000):
        drawn = corpus.conversation(chance, "flan", held_out=False)
        by_question.setdefault(drawn.question, {})[drawn.system_prompt] = drawn.answer
    answers = by_question["What is the capital of Ordania?"]
    assert answers == {
        "": "The capital of Ordania is Tarvin.",
        corpus.BRIEF: "Tarvin.",
        corpus.NEUTRAL: "The capital of Ordania is Tarvin.",
        corpus.DETAILED: "The capital of Ordania is Tarvin. The river Sel flows through Ordania.",
    }
