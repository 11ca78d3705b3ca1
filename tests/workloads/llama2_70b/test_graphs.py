import pytest
import torch
from mlbench_llama2_70b.graphs import NETWORK, OFFICIAL_CONFIG

from mlbench import DECODE, PREFILL, Decoding

DECODING = Decoding(end_tokens=(2,), max_new_tokens=1024, longest=2048)


def test_the_official_configuration_is_llama_2_70b():
    with torch.device("meta"):
        network = NETWORK.random(OFFICIAL_CONFIG)
    assert sum(parameter.numel() for parameter in network.parameters()) == 68_976_648_192
    assert network.config.rope_parameters["rope_theta"] == 10_000
    assert network.config.rms_norm_eps == 1e-5


def test_the_cache_holds_the_heads_that_query_heads_share():
    graphs = NETWORK.random_graphs(OFFICIAL_CONFIG, DECODING)
    state = graphs[DECODE].state
    assert len(state) == 2 * 80
    assert {(spec.shape[1], spec.shape[3]) for spec in state} == {(8, 128)}


@pytest.mark.parametrize("name", [PREFILL, DECODE])
def test_greedy_decoding_asks_for_the_likeliest_token_and_a_stand_in_for_the_end(name):
    outputs = NETWORK.random_graphs(OFFICIAL_CONFIG, DECODING)[name].outputs
    assert [(spec.name, spec.shape[1]) for spec in outputs] == [("tokens", 2), ("log_probabilities", 2)]
