"""Inputs of a user's model: random, or the user's."""

import numpy as np
import pytest
from mlbench_own_model.dataset import open_inputs
from mlbench_own_model.graphs import open_model
from mlbench_own_model.options import OwnModelOptions

from mlbench import DataError, UsageError


@pytest.fixture
def inputs(models):
    def inputs(name, **options):
        chosen = OwnModelOptions(model=models / name, **options)
        return open_inputs(open_model(chosen), chosen)

    return inputs


def test_random_inputs_follow_from_the_seed(inputs):
    one, same, other = (inputs("cnn.onnx", seed=seed) for seed in (1, 1, 2))
    assert one.count == 64
    assert np.array_equal(one.sample(3)["image"], same.sample(3)["image"])
    assert not np.array_equal(one.sample(3)["image"], other.sample(3)["image"])
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_random_ids_are_in_the_table_and_masks_hide_nothing(inputs):
    data = inputs("text.onnx", dims="seq=8..64")
    samples = [data.sample(index) for index in range(data.count)]
    ids = np.concatenate([sample["ids"] for sample in samples])
    assert ids.dtype == np.int64
    assert (ids.min(), ids.max()) == (0, 99)
    assert all(sample["attention_mask"].all() for sample in samples)
    assert {len(sample["ids"]) for sample in samples} == {8, 16, 24, 32, 40, 48, 56, 64}


def test_a_users_inputs_are_taken_in_the_models_type(inputs, tmp_path):
    np.savez(tmp_path / "own.npz", ids=np.arange(18, dtype=np.int32).reshape(3, 6))
    data = inputs("hand.onnx", inputs=tmp_path / "own.npz")
    assert data.count == 3
    assert data.sample(1)["ids"].tolist() == [6, 7, 8, 9, 10, 11]
    assert data.sample(1)["ids"].dtype == np.int64


def test_a_folder_of_arrays_is_taken_as_well(inputs, tmp_path):
    np.save(tmp_path / "ids.npy", np.zeros((4, 6), np.int64))
    assert inputs("hand.onnx", inputs=tmp_path).count == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": np.full((2, 6), 50)}, "sample 0 of ids has the id 50. The model's table has 50 rows"),
        ({"ids": np.zeros((2, 5), np.int64)}, "a sample of ids is 5. hand.onnx takes 6."),
        ({"ids": np.zeros((2, 6))}, "ids is float64. hand.onnx takes int64."),
        ({"ids": np.zeros((0, 6), np.int64)}, "ids has 0 samples."),
        ({"words": np.zeros((2, 6))}, "has an array 'words', which hand.onnx does not. Its inputs are ids;"),
        ({"scores": np.zeros((2, 3))}, "has no array 'ids'."),
        ({"ids": np.zeros((2, 6), np.int64), "scores": np.zeros((3, 3))}, "ids has 2, scores has 3 samples."),
        ({"ids": np.array([{}, {}])}, "inputs cannot be read:"),
    ],
)
def test_inputs_that_do_not_fit_the_model_are_named(inputs, tmp_path, arrays, message):
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises((UsageError, DataError)) as error:
        inputs("hand.onnx", inputs=tmp_path / "own.npz")
    assert message in str(error.value)
