import numpy as np
import pytest

from mlbench import DataError, Prompt
from mlbench.toolkit.language import RandomPrompts, StoredPrompts


def prompts(*lengths):
    return [Prompt(tokens=np.arange(length)) for length in lengths]


def stored(*lengths, longest=8, count=None):
    return StoredPrompts(prompts(*lengths), longest=longest, count=count, fingerprint="abc")


def test_prompts_are_samples_in_their_order():
    data = stored(3, 8, count=2)
    data.load([1])
    assert data.count == data.performance_count == 2
    assert len(data.sample(1).tokens) == 8
    assert data.fingerprint == "abc"


def test_a_prompt_longer_than_the_model_takes_is_named():
    with pytest.raises(DataError, match="the prompt of sample 1 has 9 tokens, more than 8"):
        stored(3, 9)


def test_another_number_of_samples_than_the_official_one_is_refused():
    with pytest.raises(DataError, match="has 2 samples, the official data set 24576"):
        stored(3, 3, count=24576)


class TestRandomPrompts:
    def drawn(self):
        return RandomPrompts(count=2000, median=160, shortest=20, longest=1024, vocabulary=32000)

    def test_lengths_are_mixed_around_the_median_and_within_the_range(self):
        data = self.drawn()
        lengths = [len(data.sample(index).tokens) for index in range(data.count)]
        assert 150 < np.median(lengths) < 170
        assert 20 <= min(lengths) < 60
        assert 600 < max(lengths) <= 1024

    def test_tokens_are_ordinary_ones(self):
        data = self.drawn()
        tokens = np.concatenate([data.sample(index).tokens for index in range(data.count)])
        assert tokens.dtype == np.int64
        assert (tokens.min(), tokens.max()) == (100, 31999)

    def test_they_are_the_same_each_time(self):
        assert self.drawn().sample(7).tokens.tolist() == self.drawn().sample(7).tokens.tolist()
        assert self.drawn().fingerprint == self.drawn().fingerprint
