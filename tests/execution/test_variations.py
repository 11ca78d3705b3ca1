"""Samples made of others: new to any memory, and of the same cost."""

import dataclasses
import json
from typing import NamedTuple

import numpy as np
import pytest

from mlbench import Dataset, Prompt
from mlbench.execution.variations import Change, Variation, VariedDataset, can_change, size_bytes, vary_sample
from mlbench.wire.json_values import value_of_json


class Pair(NamedTuple):
    input_ids: np.ndarray
    segment_ids: np.ndarray


def some_samples():
    random = np.random.default_rng(3)
    ids = random.permutation(30)
    return {
        "image": random.random((3, 8, 8), np.float32),
        "features and indices": (random.random((5, 13), np.float32), [np.arange(10).reshape(5, 2)]),
        "ids": Pair(ids, np.arange(30) // 15),
        "pixels": random.integers(0, 256, (8, 8, 3), np.uint8),
        "prompt": Prompt(tokens=ids, stop=(1, 2)),
        "named": {"ids": ids},
    }


SAMPLES = pytest.mark.parametrize("sample", some_samples().values(), ids=some_samples().keys())


def arrays(sample):
    if isinstance(sample, np.ndarray):
        return [sample]
    if isinstance(sample, Prompt):
        return [sample.tokens]
    parts = sample.values() if isinstance(sample, dict) else sample
    return [array for part in parts for array in arrays(part)]


@SAMPLES
def test_a_strong_change_keeps_form_and_range_and_changes_something(sample):
    before = [array.copy() for array in arrays(sample)]
    changed = vary_sample(sample, Variation(base=0, change=Change.STRONG, seed=5))
    assert type(changed) is type(sample)
    assert can_change(sample, Change.STRONG)
    assert any(not np.array_equal(old, new) for old, new in zip(before, arrays(changed), strict=True))
    for old, new, now in zip(before, arrays(changed), arrays(sample), strict=True):
        assert (new.shape, new.dtype) == (old.shape, old.dtype)
        assert min(0, old.min()) <= new.min()
        assert new.max() <= old.max() * (1 + 1e-4)
        np.testing.assert_array_equal(old, now, "the sample itself stays as it is")


def test_ids_are_drawn_from_the_samples_own_and_all_arrays_of_a_sample_alike():
    sample = some_samples()["ids"]
    changed = vary_sample(sample, Variation(base=0, change=Change.STRONG, seed=5))
    assert set(changed.input_ids) < set(sample.input_ids)
    assert changed.input_ids[[0, -1]].tolist() == sample.input_ids[[0, -1]].tolist()
    was = dict(zip(sample.input_ids.tolist(), sample.segment_ids.tolist(), strict=True))
    assert changed.segment_ids.tolist() == [was[token] for token in changed.input_ids.tolist()]


def test_indices_beside_numbers_stay_where_they_are():
    """An index of one table may be beyond the end of another."""
    _, (indices,) = vary_sample(some_samples()["features and indices"], Variation(base=0, change=Change.STRONG, seed=5))
    np.testing.assert_array_equal(indices, np.arange(10).reshape(5, 2))


def test_a_slight_change_is_no_more_than_rounding_and_leaves_ids_alone():
    samples = some_samples()
    changed = vary_sample(samples["image"], Variation(base=0, change=Change.SLIGHT, seed=5))
    assert not np.array_equal(changed, samples["image"])
    np.testing.assert_allclose(changed, samples["image"], rtol=1e-5)
    assert not can_change(samples["ids"], Change.SLIGHT)


@SAMPLES
def test_another_seed_is_another_sample(sample):
    one, other, again = (vary_sample(sample, Variation(base=0, change=Change.STRONG, seed=seed)) for seed in (1, 2, 1))
    assert any(not np.array_equal(*pair) for pair in zip(arrays(one), arrays(other), strict=True))
    assert all(np.array_equal(*pair) for pair in zip(arrays(one), arrays(again), strict=True))


def test_a_continued_prompt_has_more_tokens_and_the_same_stop():
    prompt = some_samples()["prompt"]
    longer = vary_sample(prompt, Variation(base=0, continuation=(7, 8)))
    assert longer.tokens.tolist() == [*prompt.tokens.tolist(), 7, 8]
    assert longer.stop == prompt.stop


def test_what_holds_no_array_cannot_be_changed():
    assert not can_change("text", Change.STRONG)
    assert not can_change(np.array([1, 2, 3]), Change.STRONG)


def test_the_size_of_a_sample_is_that_of_its_arrays():
    assert size_bytes(some_samples()["features and indices"]) == 5 * 13 * 4 + 10 * 8


class Three(Dataset):
    count = performance_count = 3
    fingerprint = "three"

    def load(self, indices):
        raise AssertionError

    unload = load

    def sample(self, index):
        return np.full(3, index, np.float32)


def test_variations_have_the_indices_that_they_are_given_and_others_mean_what_they_meant():
    dataset = VariedDataset(Three(), {0: Variation(base=2), 9: Variation(base=1)})
    assert [dataset.sample(index)[0] for index in (0, 1, 2, 9)] == [2, 1, 2, 1]
    assert (dataset.count, dataset.fingerprint) == (3, "three")


@pytest.mark.parametrize("change", Change)
def test_a_variation_travels_as_json(change):
    variation = Variation(base=3, change=change, seed=2**31, continuation=(4, 5))
    again = value_of_json(Variation, json.loads(json.dumps(dataclasses.asdict(variation))))
    assert again == variation
    assert again.change is change
