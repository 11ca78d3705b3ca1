"""How prompts are put to a server: as text, and with fields that servers of different kinds take."""

from pathlib import Path

import mlbench_llama2_70b
import numpy as np
import pytest
from mlbench_endpoint.request_format import request_format

from mlbench import Decoding, Model, Prompt
from mlbench.toolkit.language import TokenProgram

LLAMA = Path(mlbench_llama2_70b.__file__).parent / "mini"
BOS = 1
PROMPT = Prompt(tokens=np.array([5]), stop=(261,))


def format_of(kind, *, min_new_tokens=1, **extra):
    decoding = Decoding(end_tokens=(2,), max_new_tokens=50, longest=100, min_new_tokens=min_new_tokens)
    model = Model(name="talk", graphs={}, program=TokenProgram(decoding), weights_fingerprint="", files=LLAMA)
    return request_format(model, kind=kind, extra=extra)


def test_text_goes_without_the_token_that_a_server_puts_before_every_text():
    form = format_of("text")
    ids = form.tokenizer.encode("What is 3 plus 4?").ids
    assert ids[0] == BOS
    assert form.fields(Prompt(tokens=np.array(ids)))["prompt"] == "What is 3 plus 4?"
    assert form.fields(Prompt(tokens=np.array([BOS, *ids])))["prompt"] == "<s>What is 3 plus 4?"
    assert form.fields(Prompt(tokens=np.array(ids[1:])))["prompt"] == "What is 3 plus 4?"


def test_text_comes_back_as_the_tokens_it_was_made_of():
    form = format_of("text")
    assert form.tokens("3 + 4 = 7.", is_finished=True) == [*form.tokenizer.encode("3 + 4 = 7.").ids[1:], 2]


def test_only_servers_of_token_ids_get_fields_that_are_not_in_the_protocol():
    text, tokens = format_of("text"), format_of("tokens")
    assert {*text.common, *text.fields(PROMPT)} == {
        "temperature", "stream", "stream_options", "max_tokens", "prompt", "stop",
    }  # fmt: skip
    more = {*tokens.common, *tokens.fields(PROMPT)} - {*text.common, *text.fields(PROMPT)}
    assert more == {"min_tokens", "return_token_ids", "include_stop_str_in_output"}


@pytest.mark.parametrize(("least", "text", "tokens"), [(1, None, 1), (30, 30, 30)])
def test_a_server_of_token_ids_is_asked_for_no_end_token_before_the_fewest_tokens_one_included(least, text, tokens):
    """`generate` never answers with the end token alone; text is for servers that may refuse the field."""
    assert format_of("text", min_new_tokens=least).common.get("min_tokens") == text
    assert format_of("tokens", min_new_tokens=least).common["min_tokens"] == tokens


def test_a_field_of_the_users_own_replaces_another_and_null_takes_it_away():
    assert format_of("text", min_new_tokens=30).common["min_tokens"] == 30
    assert "min_tokens" not in format_of("text", min_new_tokens=30, min_tokens=None).common
    assert format_of("text", temperature=1).common["temperature"] == 1
    shorter, unstopped = format_of("tokens", max_tokens=5), format_of("tokens", include_stop_str_in_output=None)
    assert {**shorter.common, **shorter.fields(PROMPT)}["max_tokens"] == 5
    assert "include_stop_str_in_output" not in {**unstopped.common, **unstopped.fields(PROMPT)}


@pytest.mark.parametrize("stream", [False, None])
def test_an_answer_in_one_piece_is_asked_for_without_options_of_a_stream(stream):
    assert not format_of("text", stream=stream).common.get("stream")
    assert "stream_options" not in format_of("text", stream=stream).common


def test_tokens_begin_with_the_one_that_was_reported_when_only_a_part_of_the_text_had_come():
    form = format_of("text")

    def ids(text):
        return form.tokenizer.encode(text, add_special_tokens=False).ids

    whole = "What is the sum?"
    parts = [whole[:length] for length in range(1, 5) if ids(whole[:length])[0] != ids(whole)[0]]
    assert parts, "some part of a word is another token than the word"
    for part in parts:
        tokens = form.tokens(whole, is_finished=True, first=part)
        assert tokens[0] == ids(part)[0]
        assert tokens[-1] == 2
        assert form.tokenizer.decode(tokens).replace(" ", "") == whole.replace(" ", "")
    assert form.tokens(whole, is_finished=True, first=whole) == form.tokens(whole, is_finished=True)
