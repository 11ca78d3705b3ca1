import math

import pytest
from mlbench_llama3_1_8b.graphs import NETWORK, OFFICIAL_CONFIG


def test_the_angles_are_those_of_the_published_rule():
    """A hand calculation: fast ones stay, slow ones turn an eighth as fast, between them both are mixed."""
    sizes = {"hidden_size": 128, "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1}
    network = NETWORK.random({**OFFICIAL_CONFIG, **sizes, "vocab_size": 8, "intermediate_size": 8})
    angles = network.model.rotary_emb.inv_freq.tolist()
    for place, angle in enumerate(angles):
        plain = 500_000 ** (-place / 64)
        turns = 8192 * plain / (2 * math.pi)  # in the positions that the model was first trained with
        share = min(max((turns - 1) / (4 - 1), 0), 1)
        assert angle == pytest.approx(plain * share + plain / 8 * (1 - share), rel=1e-4)
    assert len(angles) == 64
