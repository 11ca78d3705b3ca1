import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlbench_dlrm_v2 import full_profile
from mlbench_dlrm_v2.architecture import OFFICIAL_HOT_SIZES
from mlbench_dlrm_v2.day_files import Day, write_day
from mlbench_dlrm_v2.workload import DlrmV2
from workload_variants import variants_of

from mlbench import DataError, Weights

full, mini = variants_of("dlrm-v2")

DATA, WEIGHTS = Path("day_23"), Path("model_weights")


@pytest.mark.slow
def test_the_mini_profile_has_230_samples_of_60000_rows_and_targets_of_99_and_999_per_mille():
    workload, variant = DlrmV2(), mini()
    dataset = workload.dataset(variant)
    assert (dataset.count, dataset.performance_count) == (230, 230)
    assert dataset.truth.ends[-1] == 60_000
    required, stricter = workload.metric(variant, dataset).targets
    assert required.reference >= 79
    assert required.lower == pytest.approx(required.reference * 0.99)
    assert stricter.lower == pytest.approx(required.reference * 0.999)
    assert (required.required, stricter.required) == (True, False)


def test_without_files_random_weights_run_on_random_rows_of_the_official_shape():
    workload, variant = DlrmV2(), full(Weights.RANDOM, table_rows=100)
    dataset = workload.dataset(variant)
    assert (dataset.count, dataset.performance_count) == (330_067, 204_800)
    graph = workload.model(variant).graphs["ranker"]
    assert graph.inputs[1].shape[1] == 214
    assert "100" in graph.fingerprint
    assert graph.fingerprint != workload.model(full(Weights.RANDOM, table_rows=99)).graphs["ranker"].fingerprint
    assert list(graph.calibration()) == []


class TestFilesInTheOfficialForm:
    """The full profile on a day of 300 rows, and on a snapshot of another model."""

    @pytest.fixture
    def paths(self, tmp_path, golden, monkeypatch):
        rng = np.random.default_rng(0)
        hot = [rng.integers(3, size=(300, size), dtype=np.int32) for size in OFFICIAL_HOT_SIZES]
        dense, labels = rng.random((300, 13), dtype=np.float32), rng.integers(2, size=(300, 1), dtype=np.int32)
        write_day(tmp_path, Day(dense, hot, labels))
        monkeypatch.setattr(full_profile.FullProfile, "official", replace(full_profile.OFFICIAL, rows=300))
        return {"data": tmp_path, "weights": golden / "snapshot_two_ranks"}

    def test_rows_are_scored_against_the_official_reference(self, paths):
        workload, variant = DlrmV2(), full(**paths)
        dataset = workload.dataset(variant)
        assert dataset.count == 1
        assert dataset.truth.ends.tolist() == [150]
        assert [target.reference for target in workload.metric(variant, dataset).targets] == [80.31, 80.31]

    def test_calibration_rows_are_those_behind_the_validated_ones(self, paths):
        (inputs,) = DlrmV2().model(full(**paths)).graphs["ranker"].calibration()
        day = np.load(paths["data"] / "day_23_dense.npy")
        np.testing.assert_array_equal(inputs["dense"], day[150:])

    def test_the_weights_fingerprint_is_the_manifests(self, paths):
        manifest = (paths["weights"] / ".snapshot_metadata").read_bytes()
        assert DlrmV2().model(full(**paths)).weights_fingerprint == hashlib.sha256(manifest).hexdigest()

    def test_a_snapshot_of_another_model_is_refused_when_a_backend_asks_for_it(self, paths):
        graph = DlrmV2().model(full(**paths)).graphs["ranker"]
        with pytest.raises(DataError, match=r"does not contain all of .*t_cat_0\.weight, \(40000000, 128\)"):
            graph.module()

    def test_random_weights_with_all_rows_take_the_official_data(self, paths):
        variant = full(Weights.RANDOM, data=paths["data"], table_rows=40_000_000)
        assert DlrmV2().dataset(variant).count == 1

    def test_an_index_beyond_its_table_is_found_when_samples_are_loaded(self, paths):
        day = np.load(paths["data"] / "day_23_sparse_multi_hot.npz")
        arrays = {name: day[name] for name in day.files}
        arrays["5"][7] = 3
        np.savez(paths["data"] / "day_23_sparse_multi_hot.npz", **arrays)
        dataset = DlrmV2().dataset(full(**paths))
        with pytest.raises(DataError, match="row 7 has index 3 in categorical feature 5, whose table has 3 rows"):
            dataset.load([0])


def test_a_missing_checkpoint_is_named():
    with pytest.raises(DataError, match=r"manifest cannot be read: nowhere/\.snapshot_metadata"):
        DlrmV2().model(full(data=DATA, weights=Path("nowhere")))
