import json
import random

import pytest
from mlbench_mixtral_8x7b.gsm8k import is_right
from mlbench_mixtral_8x7b.mini_profile import DATA, MiniProfile
from mlbench_recipes.mixtral_8x7b import corpus_code, recipe

OFFICIAL_COLUMNS = [
    "dataset",
    "id",
    "question",
    "input",
    "ref_output",
    "gt_output",
    "tok_input",
    "tok_ref_output",
    "stop_sequence",
    "tok_stop_sequence",
    "tok_input_len",
    "tok_ref_output_len",
]


@pytest.fixture(scope="module")
def rows():
    return json.loads((MiniProfile.shipped().folder / DATA).read_text())


def of(rows, dataset):
    return [row for row in rows if row["dataset"] == dataset]


def test_rows_are_those_of_the_official_table_in_mixed_order(rows):
    assert all(list(row) == OFFICIAL_COLUMNS for row in rows)
    assert {name: len(of(rows, name)) for name in recipe.KINDS} == {"OpenOrca": 96, "GSM8K": 96, "MBXP": 96}
    assert {row["dataset"] for row in rows[:12]} == set(recipe.KINDS)
    assert len({row["input"] for row in rows}) == 288


def test_a_prompt_begins_with_bos_twice_and_a_blank(rows):
    tokenizer = MiniProfile.shipped().tokenizer()
    for row in rows:
        assert row["tok_input"][:2] == [1, 1]
        assert tokenizer.decode(row["tok_input"][2:]) == f" [INST] {row['question']} [/INST]"
        assert tokenizer.decode(row["tok_ref_output"]) == row["ref_output"]


def test_the_official_reading_of_a_solution_finds_the_right_number(rows):
    problems = of(rows, "GSM8K")
    assert all(is_right(row["ref_output"], row["gt_output"]) for row in problems)
    assert all(row["stop_sequence"] == "</s>" and row["tok_stop_sequence"] == [2] for row in problems)


def test_every_line_of_a_solution_is_right(rows):
    for row in of(rows, "GSM8K"):
        *lines, _ = row["ref_output"].split(". ")
        for line in lines:
            left, right = line.split(" = ")
            assert eval(left.replace("x", "*")) == int(right)


def test_a_program_passes_its_test_and_another_one_does_not(rows):
    problems = of(rows, "MBXP")
    for row, other in zip(problems, problems[1:] + problems[:1], strict=True):
        name, text = row["id"].removeprefix("python_"), row["ref_output"]
        scope = {}
        exec(text.split("```")[0] + row["gt_output"] + f"\ncheck({name})", scope)
        exec(other["ref_output"].split("```")[0], scope)
        with pytest.raises(AssertionError):
            scope["check"](scope[other["id"].removeprefix("python_")])


def test_a_program_ends_with_the_stop_sequence_and_the_answer_goes_on(rows):
    for row in rows:
        ids, stop = row["tok_ref_output"], row["tok_stop_sequence"]
        places = [place for place in range(len(ids)) if ids[place : place + len(stop)] == stop]
        if row["dataset"] == "MBXP":
            assert row["stop_sequence"] == "\n```\n"
            (place,) = places
            assert len(ids) - place - len(stop) > 10
        else:
            assert not places


@pytest.mark.thorough("recipes")
def test_no_validation_sample_is_trained_on(rows):
    chance = random.Random(1)
    for name, draw in recipe.KINDS.items():
        asked = {row["question"] for row in of(rows, name)}
        assert asked.isdisjoint(draw(chance, held_out=False).question for _ in range(2000))


@pytest.mark.thorough("recipes")
def test_the_parts_of_a_held_out_program_are_together_in_no_other():
    chance = random.Random(1)
    parts = [
        {
            corpus_code.problem(chance, held_out=held_out)
            .question.split('"""')[1]
            .translate(str.maketrans("", "", "-0123456789"))
            for _ in range(3000)
        }
        for held_out in (False, True)
    ]
    assert parts[0].isdisjoint(parts[1])
