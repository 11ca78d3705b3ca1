import json
from dataclasses import replace

import numpy as np
import psutil
import pytest
from mlbench_dlrm_v2.architecture import OFFICIAL_TABLE_ROWS, Architecture
from mlbench_dlrm_v2.dataset import (
    AggregatedPairs,
    calibration_inputs,
    random_samples,
    validation_rows,
    validation_samples,
)
from mlbench_dlrm_v2.day_files import Day, open_day, write_day

from mlbench import DataError

SMALL = Architecture(table_rows=(10, 4), hot_sizes=(2, 1))


def day(rows):
    """Row r has the dense features r, r, ...; only the first half was clicked."""
    dense = np.repeat(np.arange(rows, dtype=np.float32)[:, None], 13, axis=1)
    hot = [np.full((rows, 2), 9, dtype=np.int32), np.full((rows, 1), 3, dtype=np.int32)]
    return Day(dense, hot, (np.arange(rows)[:, None] < rows / 2).astype(np.int32))


def pairs(rows, *sizes):
    ends = np.cumsum(sizes)
    return AggregatedPairs(rows, ends - sizes, ends, table_rows=SMALL.table_rows, fingerprint="")


@pytest.fixture
def folder(tmp_path):
    write_day(tmp_path, day(1001))
    return tmp_path


def test_the_first_half_is_validated_on_as_in_the_reference(golden):
    case = json.loads((golden / "dataset_batch" / "expected.json").read_text())
    opened = open_day(golden / "dataset_batch", case["multi_hot_sizes"])
    assert validation_rows(opened) == case["validation_rows"]


def test_samples_are_the_aggregated_runs_of_the_first_half(folder):
    dataset = validation_samples(folder, SMALL, rows=1001)
    assert dataset.count == dataset.performance_count == 3  # 200 + 200 + 101 of 501 rows
    dataset.load([0, 1, 2])
    dense, hot = dataset.sample(2)
    assert dense[[0, -1], 0].tolist() == [400, 500]
    assert [part.shape for part in hot] == [(101, 3)]
    assert dataset.truth.labels[dataset.truth.starts[2] : dataset.truth.ends[2]].tolist() == [1] * 101


def test_a_sample_is_a_view_of_the_files(folder):
    dataset = validation_samples(folder, SMALL, rows=1001)
    dense, hot = dataset.sample(1)
    for array in (dense, *hot):
        assert isinstance(array.base.base, np.memmap) or isinstance(array.base, np.memmap)


def test_loaded_samples_have_their_indices_side_by_side_in_one_copy_of_the_rows():
    rows = day(30)
    rows.hot[0][:] = np.arange(60, dtype=np.int32).reshape(30, 2) % 10
    rows.hot[1][:] = np.arange(30, dtype=np.int32).reshape(30, 1) % 4
    starts, ends = np.array([4, 0, 20, 8]), np.array([10, 6, 30, 12])
    dataset = AggregatedPairs(rows, starts, ends, table_rows=SMALL.table_rows, fingerprint="")
    before = [np.concatenate(dataset.sample(index)[1], axis=1) for index in range(4)]
    dataset.load([0, 1, 2])
    samples = [dataset.sample(index)[1] for index in range(4)]
    assert [len(hot) for hot in samples] == [1, 1, 1, 2]
    for (joined,), expected in zip(samples[:3], before, strict=False):
        np.testing.assert_array_equal(joined, expected)
        assert joined.flags.c_contiguous
    assert np.shares_memory(samples[0][0], samples[1][0])
    dataset.unload([0, 1, 2])
    assert len(dataset.sample(2)[1]) == 2


def test_rows_stay_where_they_lie_if_joining_them_would_take_much_of_the_memory(monkeypatch):
    rows = 100 * 3 * 4  # bytes
    free = psutil.virtual_memory()._replace(available=4 * rows - 1)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    dataset = pairs(day(100), 50, 50)
    dataset.load([0, 1])
    assert len(dataset.sample(0)[1]) == 2
    dataset.load([0])
    assert len(dataset.sample(0)[1]) == 1


def test_a_day_of_another_length_is_refused(folder):
    with pytest.raises(DataError, match="contains 1001 rows, not 178274637"):
        validation_samples(folder, SMALL, rows=178274637)


@pytest.mark.parametrize(("feature", "index", "table"), [(0, 10, 10), (1, 4, 4), (0, -1, 10), (1, 2**31 - 1, 4)])
def test_an_index_without_a_row_is_found_when_its_sample_is_loaded(feature, index, table):
    rows = day(20)
    rows.hot[feature][13, -1] = index
    dataset = pairs(rows, 10, 10)
    dataset.load([0])
    with pytest.raises(
        DataError, match=f"row 13 has index {index} in categorical feature {feature}, whose table has {table} "
    ):
        dataset.load([0, 1])


def test_rows_between_the_samples_that_are_loaded_are_not_looked_at():
    rows = day(20)
    rows.hot[0][7] = 10
    pairs(rows, 5, 5, 5, 5).load([2, 0, 3])


def test_a_dense_feature_that_is_no_number_is_found_when_its_sample_is_loaded():
    rows = day(20)
    rows.dense[15, 4] = np.nan
    dataset = pairs(rows, 5, 5, 5, 5)
    dataset.load([2, 0, 1])
    with pytest.raises(DataError, match="rows 15 to 19 is not a number"):
        dataset.load([3])


def test_rows_are_checked_in_parts_up_to_the_last(monkeypatch):
    monkeypatch.setattr("mlbench_dlrm_v2.dataset.READ_TOGETHER", 3)
    rows = day(20)
    rows.hot[0][19] = 10
    with pytest.raises(DataError, match="row 19 has index 10"):
        pairs(rows, 10, 10).load([0, 1])


def test_the_official_number_of_samples_is_kept_loaded_at_most():
    dataset = pairs(day(330_067), *[1] * 330_067)
    assert (dataset.count, dataset.performance_count) == (330_067, 204_800)


def test_calibration_rows_are_those_behind_the_validation_rows(folder, monkeypatch):
    monkeypatch.setattr("mlbench_dlrm_v2.dataset.CALIBRATION_ROWS", 450)
    monkeypatch.setattr("mlbench_dlrm_v2.dataset.CALIBRATION_CALL", 200)
    calls = list(calibration_inputs(folder, SMALL))
    assert [(call["dense"].shape, call["indices"].shape) for call in calls] == [
        ((rows, 13), (rows, 3)) for rows in (200, 200, 50)
    ]
    assert [call["dense"][0, 0] for call in calls] == [501, 701, 901]
    assert calls[-1]["dense"][-1, 0] == 950
    assert calls[0]["indices"][0].tolist() == [9, 9, 3]


def test_a_short_day_is_calibrated_on_to_its_end(folder):
    (call,) = calibration_inputs(folder, SMALL)
    assert call["dense"][[0, -1], 0].tolist() == [501, 1000]


def test_random_samples_have_the_official_number_and_sizes():
    architecture = replace(Architecture(), table_rows=tuple(min(rows, 50) for rows in OFFICIAL_TABLE_ROWS))
    dataset = random_samples(architecture)
    assert (dataset.count, dataset.performance_count) == (330_067, 204_800)
    dataset.load([0, 1, 330_066])
    sizes = [len(dataset.sample(index)[0]) for index in (0, 4, 5, 330_066)]
    assert sizes == [200, 500, 700, 19]
    dense, hot = dataset.sample(204_800)
    assert [part.shape[1] for part in hot] == list(architecture.hot_sizes)  # it is not loaded
    assert np.unique(hot[20]).tolist() == list(range(50))
    assert not np.array_equal(dense[:19], dataset.sample(330_066)[0])
    assert dataset.fingerprint != random_samples(replace(architecture, table_rows=(3,) * 26)).fingerprint
