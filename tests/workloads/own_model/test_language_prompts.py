"""The prompts of a user's language model: drawn ones, and those of a file."""

import json
import shutil
from pathlib import Path

import pytest
from mlbench_own_model.language_workload import OwnLanguageModel
from tokenizers import Tokenizer
from tokenizers.normalizers import Replace

from mlbench import DataError, UsageError

LLAMA = Path(__file__).parents[2] / "data" / "llama2_70b"
WORKLOAD = OwnLanguageModel("mine")


@pytest.fixture
def folder(language_folder):
    return language_folder("llama")


@pytest.fixture
def opened(folder, language_variant):
    """Return a function that returns the prompts' tokens and the rules of decoding."""

    def opened(at=folder, **options):
        variant = language_variant(at, **options)
        data, decoding = WORKLOAD.dataset(variant), WORKLOAD.model(variant).program.decoding
        return [data.sample(index).tokens.tolist() for index in range(data.count)], decoding

    return opened


@pytest.fixture
def asked(opened, tmp_path):
    """Return a function that opens a file of prompts."""

    def asked(*lines, **options):
        file = tmp_path / "prompts.jsonl"
        file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        return opened(inputs=file, **options)

    return asked


def test_drawn_prompts_have_lengths_of_the_range_and_no_special_tokens(opened):
    prompts, _ = opened(dims="prompt=5..9", samples=200)
    assert len(prompts) == 200
    assert {len(each) for each in prompts} == {5, 6, 7, 8, 9}
    assert {token for each in prompts for token in each} == set(range(3, 203))


def test_text_of_drawn_prompts_is_cut_into_the_same_tokens_with_the_one_that_its_tokenizer_prepends(
    opened, folder, tmp_path
):
    own = shutil.copytree(folder, tmp_path / "own")
    shutil.copy(LLAMA / "tokenizer.json", own)
    config = json.loads((own / "config.json").read_text()) | {"vocab_size": 750}
    (own / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.from_file(str(own / "tokenizer.json"))
    prompts, _ = opened(at=own, dims="prompt=5..40")
    assert {each[0] for each in prompts} == {1}
    assert [tokenizer.encode(tokenizer.decode(each[1:], skip_special_tokens=False)).ids for each in prompts] == prompts


def test_a_tokenizer_that_cuts_every_text_otherwise_leaves_random_tokens(opened, folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "own")
    tokenizer = Tokenizer.from_file(str(own / "tokenizer.json"))
    tokenizer.normalizer = Replace("w", "x")
    tokenizer.save(str(own / "tokenizer.json"))
    prompts, _ = opened(at=own, dims="prompt=5..9")
    assert {len(each) for each in prompts} == {5, 6, 7, 8, 9}
    assert min(token for each in prompts for token in each) >= 3


def test_a_seed_draws_the_same_prompts_again_and_another_one_others(opened):
    assert opened(seed=1)[0] == opened(seed=1)[0]
    assert opened(seed=1)[0] != opened(seed=2)[0]


def test_answers_to_drawn_prompts_all_have_the_longest_length(opened):
    _, decoding = opened(dims="answer=7")
    assert (decoding.min_new_tokens, decoding.max_new_tokens, decoding.end_tokens) == (7, 7, (2,))


def test_answers_to_the_users_prompts_end_at_an_end_token(asked):
    _, decoding = asked({"tokens": [5]}, dims="answer=7")
    assert (decoding.min_new_tokens, decoding.max_new_tokens, decoding.end_tokens) == (1, 7, (2,))


def test_text_is_cut_by_the_folders_tokenizer_and_ids_are_taken_as_they_are(asked):
    prompts, _ = asked({"prompt": "w0 w10  w199"}, "", {"tokens": [1, 4, 2], "note": "anything"})
    assert prompts == [[3, 13, 202], [1, 4, 2]]


def test_ids_need_no_tokenizer(asked, opened, folder, tmp_path):
    bare = shutil.copytree(folder, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    assert asked({"tokens": [5]}, at=bare)[0] == [[5]]
    with pytest.raises(DataError, match=r"line 2 of .*jsonl is text, and .*bare has no tokenizer.json. Give ids"):
        asked({"tokens": [5]}, {"prompt": "w1"}, at=bare)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2 of .* is not JSON"),
        ("[1]", "line 2 of .* is not an object with a prompt or tokens"),
        ('{"prompt": "w1", "tokens": [4]}', "line 2 of .* is not an object with a prompt or tokens"),
        ({"text": "w1"}, "line 2 of .* is not an object with a prompt or tokens"),
        ({"prompt": 5}, "line 2 of .* has a prompt that is not text: '5'"),
        ({"prompt": ""}, "line 2 of .* has an empty prompt"),
        ({"tokens": []}, "line 2 of .* has an empty prompt"),
        ({"tokens": [5, True]}, "line 2 of .* has tokens that are not a list of ids"),
        ({"tokens": [-1]}, "line 2 of .* has tokens that are not a list of ids"),
        ({"tokens": [5, 203]}, "line 2 of .* has token 203, which is not in the vocabulary. .* below 203"),
        ({"tokens": [5] * 97}, "line 2 of .*: a prompt of 97 tokens and 32 new ones exceed the 128 positions"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(asked, line, told):
    with pytest.raises(DataError, match=told) as refused:
        asked({"prompt": "w1"}, line)
    assert refused.value.hint


def test_a_prompt_that_just_fits_is_taken(asked):
    assert len(asked({"tokens": [5] * 96})[0][0]) == 96


def test_a_file_without_a_prompt_is_refused(asked):
    with pytest.raises(DataError, match="has no prompt"):
        asked(" ")


@pytest.mark.parametrize(
    ("dims", "told"),
    [
        ("seq=5", "'seq=5' is no size of a language model"),
        ("prompt=a", "'prompt=a' is no size"),
        ("prompt=9..5", "prompt has 9..5 tokens"),
        ("prompt=0", "prompt has 0..0 tokens"),
        ("answer=8..16", "answer=8..16 is a range. Give the longest answer: --dim answer=16"),
        ("answer=1", "an answer of one token has no time per token"),
        ("prompt=16..97", "a prompt of 97 tokens and 32 new ones exceed the 128 positions of the model"),
    ],
)
def test_sizes_that_cannot_be_are_refused(opened, dims, told):
    with pytest.raises(UsageError, match=told):
        opened(dims=dims)
