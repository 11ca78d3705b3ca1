"""Graphs of each family of decoders against the logits of transformers' own class, with random weights."""

import numpy as np
import pytest
import torch
import transformers
from mlbench_own_model.language_families import FAMILIES, family_of

from mlbench import DECODE, PREFILL, Decoding
from mlbench.toolkit.language import LanguageNetwork

CHOICES, LENGTH, TOKENS = 3, 24, 20
COMMON = ("llama", "gpt2", "gemma2", "granite", "qwen3_moe")
"""Families that every change is tested with: rotary and learned positions, a capped and a divided head, experts."""
DECODING = Decoding(end_tokens=(1, 2), max_new_tokens=8, longest=LENGTH)
SMALL = {
    **{"vocab_size": 97, "hidden_size": 32, "n_embd": 32, "num_hidden_layers": 2, "n_layer": 2},
    **{"num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2, "head_dim": 16, "rotary_dim": 4},
    **{"intermediate_size": 48, "n_inner": 48, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
    **{"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "n_shared_experts": 1, "moe_num_experts": 4},
    **{"num_experts_per_tok": 2, "moe_topk": 1, "moe_k": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    **{"max_position_embeddings": 128, "n_positions": 128, "n_ctx": 128, "sliding_window": 64},
    **{"initializer_range": 0.3, "init_std": 0.3, "use_cache": True},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"logits_scaling": 2.0, "logit_scale": 0.25, "final_logit_softcapping": 5.0},
}


def _is_left_out(usual, name):
    return name == "sliding_window" and usual.sliding_window is None


def tiny_config(kind):
    """Return the class's configuration with small numbers where it has such a number, as config.json would say it."""
    usual = kind.config_class()
    chosen = {name: value for name, value in SMALL.items() if hasattr(usual, name) and not _is_left_out(usual, name)}
    for name in ("layer_types", "mlp_layer_types"):
        if kinds := getattr(usual, name, None):
            chosen[name] = [kinds[0], kinds[-1]]
    return kind.config_class(**chosen).to_dict()


def each_step(graphs, ids):
    """Yield the position that was asked for, and the likeliest tokens and their log-probabilities there."""
    prefill, decode = (graphs[name].module() for name in (PREFILL, DECODE))
    spec = graphs[DECODE].state
    state = [torch.zeros(2, each.shape[1], LENGTH, each.shape[3]) for each in spec]
    columns, start = torch.arange(LENGTH), 0
    for piece in (7, 5):
        last = torch.tensor([piece - 1])
        pieces = ids[:, start : start + piece]
        found = prefill(pieces, torch.tensor([start]), torch.tensor([0]), last, columns, *state)
        start += piece
        yield start - 1, *found[:2]
    for place in range(start, TOKENS):
        found = decode(ids[0, place : place + 1], torch.tensor([place]), columns, *state)
        yield place, *found[:2]


CASES = [
    pytest.param(family, marks=() if family in COMMON else pytest.mark.thorough("workloads"))
    for family in sorted(FAMILIES)
]


@pytest.mark.parametrize("family", CASES)
def test_graphs_give_the_logits_of_the_familys_own_class(family):
    network = family_of(family)
    if network is None:
        pytest.skip(f"transformers {transformers.__version__} has no {family}")
    config = tiny_config(getattr(transformers, network.kind))
    own = LanguageNetwork(kind=network.kind, model_type=family).random(config)
    ids = torch.from_numpy(np.random.default_rng(0).integers(3, 97, (1, TOKENS)))
    with torch.inference_mode():
        wanted = torch.log_softmax(own(input_ids=ids, use_cache=False).logits.float(), -1)[0]
        assert wanted.std() > 0.3
        for place, tokens, found in each_step(network.random_graphs(config, DECODING), ids):
            torch.testing.assert_close(found[0], wanted[place, tokens[0]], rtol=0, atol=1e-4)
            assert tokens[0].tolist() == wanted[place].topk(CHOICES).indices.tolist()
