from mlbench_llama2_70b.program import conversing


def test_answers_are_generated_as_officially():
    decoding = conversing(positions=2048).decoding
    assert decoding.end_tokens == (2,)
    assert (decoding.beams, decoding.min_new_tokens, decoding.max_new_tokens) == (1, 1, 1024)
    assert decoding.longest == 2048


def test_a_model_with_fewer_positions_has_its_own_limit():
    assert conversing(positions=512, max_new_tokens=256).decoding.max_new_tokens == 256
