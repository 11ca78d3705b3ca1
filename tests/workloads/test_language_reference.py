"""What the reference answers, against the official reference's own calls of `generate` on tiny models."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from mlbench import Decoding, Prompt

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mlbench_recipes.language_reference import answers, reference_replies  # noqa: E402

from mlbench.toolkit.language import StoredPrompts, TokenProgram  # noqa: E402

DATA = Path(__file__).parents[1] / "data"
WORKLOADS = ["gptj", "llama2_70b", "llama3_1_8b", "mixtral_8x7b"]


def tiny(workload):
    """A tiny network, its prompts, how it answers, and what it answered."""
    folder = DATA / workload / "tiny_generate"
    expected = json.loads((folder / "expected.json").read_text())
    settings, ends = expected["generation"], expected["eos_token_id"]
    decoding = Decoding(
        end_tokens=tuple(ends) if isinstance(ends, list) else (ends,),
        max_new_tokens=settings["max_new_tokens"],
        min_new_tokens=settings["min_new_tokens"],
        beams=settings["num_beams"],
        longest=256,
    )
    prompts = [Prompt(tokens=np.array(ids)) for ids in json.loads((folder / "prompts.json").read_text())]
    network = importlib.import_module(f"mlbench_{workload}.graphs").NETWORK.trained(folder)
    return network, prompts, decoding, expected["new_token_ids"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_prompts_of_unequal_length_get_in_one_batch_what_the_official_reference_answers_to_each_alone(workload):
    network, prompts, decoding, expected = tiny(workload)
    assert len({len(prompt.tokens) for prompt in prompts}) > 1
    assert answers(network, prompts, decoding) == expected


def test_the_end_is_forced_after_a_stop_sequence_that_may_begin_in_the_prompt():
    network, prompts, decoding, expected = tiny("llama2_70b")
    first = prompts[0].tokens
    within = Prompt(tokens=first, stop=tuple(expected[0][3:5]))
    across = Prompt(tokens=first, stop=(int(first[-1]), *expected[0][:2]))
    assert answers(network, [within, prompts[0], across], decoding) == [
        [*expected[0][:5], 2],
        expected[0],
        [*expected[0][:2], 2],
    ]


def test_replies_are_those_of_an_accuracy_log():
    network, prompts, decoding, expected = tiny("mixtral_8x7b")
    dataset = StoredPrompts(prompts, longest=256, count=None, fingerprint="tiny")
    replies = reference_replies(network, dataset, TokenProgram(decoding), [2, 0])
    assert [reply.index for reply in replies] == [2, 0]
    assert [np.frombuffer(reply.data, "<i8").tolist() for reply in replies] == [expected[2], expected[0]]
    assert [reply.token_count for reply in replies] == [len(expected[2]), len(expected[0])]
