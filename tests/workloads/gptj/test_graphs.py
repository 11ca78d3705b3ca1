import torch
from mlbench_gptj.graphs import NETWORK, OFFICIAL_CONFIG

from mlbench import DECODE, PREFILL, Decoding

DECODING = Decoding(end_tokens=(50256,), max_new_tokens=128, min_new_tokens=30, beams=4, longest=2048)


def test_the_official_configuration_is_gpt_j_6b():
    with torch.device("meta"):
        network = NETWORK.random(OFFICIAL_CONFIG)
    assert sum(parameter.numel() for parameter in network.parameters()) == 6_050_882_784
    assert network.config.layer_norm_epsilon == 1e-5
    assert network.config.activation_function == "gelu_new"


def test_the_cache_holds_all_heads():
    state = NETWORK.random_graphs(OFFICIAL_CONFIG, DECODING)[PREFILL].state
    assert len(state) == 2 * 28
    assert {(spec.shape[1], spec.shape[3]) for spec in state} == {(16, 256)}


def test_beam_search_asks_for_enough_that_it_can_go_on_when_the_end_is_ruled_out():
    tokens = NETWORK.random_graphs(OFFICIAL_CONFIG, DECODING)[DECODE].outputs[0]
    assert tokens.shape[1] == 2 * 4 + 1
