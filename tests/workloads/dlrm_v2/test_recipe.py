import numpy as np
import pytest
import torch
from mlbench_dlrm_v2 import clicks
from mlbench_dlrm_v2.clicks import TRAINING, VALIDATION, PlantedTruth
from mlbench_dlrm_v2.mini_profile import MiniProfile
from mlbench_recipes.dlrm_v2.recipe import ARCHITECTURE, BATCH, DAY_ROWS, SEED, train, training_batches
from safetensors.torch import load_file

ROWS = 5_000


def truth(seed=SEED):
    return PlantedTruth(seed, ARCHITECTURE.table_rows, ARCHITECTURE.hot_sizes)


@pytest.fixture(autouse=True)
def nondeterministic_again():
    """The recipe asks torch for deterministic algorithms; other tests do not."""
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def rows():
    return next(truth().chunks(VALIDATION, ROWS))


def test_rows_have_the_official_form(rows):
    assert rows.dense.shape == (ROWS, 13)
    counts = np.exp(rows.dense) - 3
    np.testing.assert_allclose(counts, counts.round(), atol=0.01)
    assert counts.min() == pytest.approx(0, abs=0.01)
    for part, size, table in zip(rows.hot, ARCHITECTURE.hot_sizes, ARCHITECTURE.table_rows, strict=True):
        assert (part.shape, part.dtype) == ((ROWS, size), "int32")
        assert (part.min(), part.max()) == (0, table - 1)
    assert np.unique(rows.labels).tolist() == [0, 1]
    assert 0.2 < rows.labels.mean() < 0.3


def test_rows_are_the_same_each_time_and_no_other_purposes(rows):
    again, training = (next(truth().chunks(purpose, ROWS)) for purpose in (VALIDATION, TRAINING))
    np.testing.assert_array_equal(again.dense, rows.dense)
    np.testing.assert_array_equal(again.hot[20], rows.hot[20])
    np.testing.assert_array_equal(again.labels, rows.labels)
    assert not {row.tobytes() for row in training.hot[20]} & {row.tobytes() for row in rows.hot[20]}


def test_a_day_has_as_many_rows_as_it_is_asked_for_in_chunks_that_differ(monkeypatch):
    monkeypatch.setattr(clicks, "CHUNK", 100)
    day = truth().day(203)
    assert {len(array) for array in (day.dense, day.labels, *day.hot)} == {203}
    assert not np.array_equal(day.hot[20][:100], day.hot[20][100:200])


def test_another_seed_makes_other_clicks():
    one, other = (next(truth(seed).chunks(VALIDATION, 50)) for seed in (1, 2))
    assert not np.array_equal(one.hot[20], other.hot[20])


def test_training_goes_through_fresh_rows_a_batch_at_a_time():
    batches = list(training_batches(truth(), steps=3))
    assert [(dense.shape, indices.shape, labels.shape) for dense, indices, labels in batches] == [
        ((BATCH, 13), (BATCH, 214), (BATCH,))
    ] * 3
    assert not torch.equal(batches[0][1], batches[1][1])


def test_training_gives_the_same_weights_again():
    one, other = train(truth(), steps=2), train(truth(), steps=2)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert {tensor.dtype for tensor in one.values()} == {torch.float16}


def test_the_shipped_weights_are_of_the_recipes_network_and_day():
    profile = MiniProfile.shipped()
    assert (profile.architecture, profile.seed, profile.rows) == (ARCHITECTURE, SEED, DAY_ROWS)
    shipped = load_file(profile.files.file("weights.safetensors"))
    trained = train(truth(), steps=1)
    assert {name: tensor.shape for name, tensor in shipped.items()} == {
        name: tensor.shape for name, tensor in trained.items()
    }


@pytest.mark.thorough("recipes")
def test_training_learns_what_decides_the_clicks():
    from mlbench_dlrm_v2.graphs import StateDict, build_network
    from mlbench_dlrm_v2.program import join_indices
    from sklearn.metrics import roc_auc_score

    state = {name: tensor.float() for name, tensor in train(truth(), steps=60).items()}
    network = build_network(ARCHITECTURE, StateDict(state, MiniProfile.shipped().files.path))
    rows = next(truth().chunks(VALIDATION, ROWS))
    with torch.inference_mode():
        logits = network(torch.from_numpy(rows.dense), torch.from_numpy(join_indices([rows.hot])))
    assert roc_auc_score(rows.labels[:, 0], logits.numpy()) > 0.6
