from mlbench_gptj.program import summarising


def test_summaries_are_generated_as_officially():
    decoding = summarising(end_token=50256, positions=2048).decoding
    assert decoding.end_tokens == (50256,)
    assert (decoding.beams, decoding.min_new_tokens, decoding.max_new_tokens) == (4, 30, 128)
    assert decoding.longest == 2048
