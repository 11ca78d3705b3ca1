"""Prompt texts are tested against the official ones in `test_openorca.py`."""

import pytest
from mlbench_llama2_70b.prompts import prompt_text, prompt_tokens
from tokenizers import Tokenizer


def test_without_a_system_prompt_its_part_is_left_out():
    assert prompt_text("", "Why?") == "<s>[INST] Why? [/INST]"
    assert prompt_text("Be brief.", "Why?") == "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nWhy? [/INST]"


@pytest.mark.parametrize(("options", "last"), [({}, 29871), ({"lone_blank": 7}, 7)])
def test_a_prompt_begins_with_bos_twice_and_ends_with_a_lone_blank(golden, options, last):
    tokenizer = Tokenizer.from_file(str(golden / "openorca_filter" / "tokenizer.json"))
    tokens = prompt_tokens(prompt_text("", "Why?"), tokenizer, **options)
    assert tokens[:2] == [1, 1]
    assert tokens[-1] == last
