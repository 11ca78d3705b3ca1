"""The kit for language models on the core's in-flight engine, and what the kit's own model is."""

import numpy as np
import pytest

from mlbench.conformance import TextEngineConformance
from mlbench.conformance.text_model import (
    END_TOKEN,
    ENDING,
    FULL,
    MAX_NEW_TOKENS,
    POSITIONS,
    TWINS,
    VOCABULARY,
    fixed_prompts,
    text_folder,
    write_model,
)
from mlbench.conformance.text_reference import (
    _network,
    end_at_stop,
    fixed_answers,
    generated_answers,
    is_whole_in_text,
    wrong_token,
)
from mlbench.contracts.generation import Prompt
from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins

for package in ("torch", "transformers", "tokenizers"):
    pytest.importorskip(package)
slow = pytest.mark.slow


@slow
class TestPytorch(TextEngineConformance):
    @pytest.fixture
    def backend(self):
        return Plugins.discover().backend("pytorch")


@pytest.mark.thorough("kit")
class TestPytorchInBf16(TestPytorch):
    precision = Precision("bf16")


@pytest.mark.thorough("kit")
class TestOnnxRuntime(TextEngineConformance):
    @pytest.fixture
    def backend(self):
        return Plugins.discover().backend("onnxruntime")


@slow
def test_the_likeliest_token_of_each_answer_is_far_ahead_of_the_next():
    """A thousand times farther than fp32 rounds on any machine."""
    import torch

    for prompt, answer in zip(fixed_prompts(), fixed_answers(), strict=True):
        tokens = torch.tensor([[*prompt.tokens.tolist(), *answer]])
        with torch.inference_mode():
            logits = _network()(tokens).logits[0, len(prompt.tokens) - 1 : -1].numpy()
        best = np.sort(logits, axis=1)[:, -2:]
        assert ((best[:, 1] - best[:, 0]) / logits.std()).min() > 0.01


@slow
def test_answers_end_by_themselves_or_are_whole_and_all_differ():
    known = fixed_answers()
    assert all(known[index][-1] == 2 and 2 < len(known[index]) < MAX_NEW_TOKENS for index in ENDING)
    assert all(len(known[index]) == MAX_NEW_TOKENS and 2 not in known[index] for index in (*FULL, *TWINS))
    assert len(set(known)) == len(known)


@slow
def test_text_is_cut_into_the_tokens_that_it_was_made_of():
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(text_folder())
    assert len(tokenizer) == VOCABULARY
    for prompt in fixed_prompts():
        tokens = prompt.tokens.tolist()
        assert tokenizer.encode(tokenizer.decode(tokens)) == tokens


@slow
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_answers_of_other_prompts_are_wrong_in_low_precisions_too(precision):
    known = fixed_answers()
    for index in (*FULL, *TWINS):
        prompt = fixed_prompts()[index]
        assert not wrong_token(prompt, known[index], Precision(precision))
        assert wrong_token(prompt, known[(index + 1) % len(FULL)], Precision(precision))
        assert wrong_token(prompt, [*known[index], 5], Precision(precision))


def test_a_stop_sequence_may_begin_in_the_prompt_and_one_that_is_never_reached_ends_nothing():
    prompt = Prompt(tokens=np.array([8, 9]), stop=(9, 4))
    assert end_at_stop(prompt, (4, 5, 6)) == (4, 2)
    assert end_at_stop(prompt, (5, 9, 4, 7)) == (5, 9, 4, 2)
    assert end_at_stop(prompt, (5, 6)) == (5, 6)


@pytest.mark.thorough("kit")
def test_an_answer_whose_end_token_is_in_the_last_place_is_not_whole_in_text():
    """Prompts with their answers as new prompts, until one ends; then all but so many tokens of it as are allowed."""
    for prompt in fixed_prompts()[FULL.start : FULL.stop]:
        tokens = prompt.tokens.tolist()
        while len(tokens) < POSITIONS - MAX_NEW_TOKENS and END_TOKEN not in tokens:
            tokens += generated_answers([Prompt(tokens=np.array(tokens))])[0]
        if END_TOKEN in tokens:
            break
    end = tokens.index(END_TOKEN)
    late, early = (Prompt(tokens=np.array(tokens[: end + 1 - count])) for count in (MAX_NEW_TOKENS, MAX_NEW_TOKENS - 1))
    assert [generated_answers([each])[0][-1] for each in (late, early)] == [END_TOKEN, END_TOKEN]
    assert not is_whole_in_text(late)
    assert is_whole_in_text(early)


def test_a_damaged_folder_in_the_cache_is_written_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    weights = text_folder() / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert (text_folder() / "model.safetensors").read_bytes() == whole


def test_the_model_is_written_through_no_link(tmp_path):
    """A link is somebody's name for another folder."""
    from mlbench.errors import UsageError

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="exists, and contains other files"):
        write_model(tmp_path / "link")
