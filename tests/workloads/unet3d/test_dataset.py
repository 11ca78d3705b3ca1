import os

import numpy as np
import pytest
from mlbench_unet3d import dataset as dataset_module
from mlbench_unet3d.dataset import PreparedCases, RandomVolumes, calibration_inputs, prepare_cases
from mlbench_unet3d.kits19 import read_case
from mlbench_unet3d.preprocessing import Grid, prepare_case

from mlbench import DataError

GRID = Grid(window=8)


@pytest.fixture
def data(write_case, tmp_path):
    """Three cases of different shapes: their grey values, from -79 to 304 HU, tell them apart."""
    rng = np.random.default_rng(0)
    for number, shape in {0: (8, 8, 8), 3: (12, 8, 10), 185: (8, 16, 8)}.items():
        image = rng.integers(-79, 304, shape, dtype=np.int16)
        write_case(f"case_{number:05}", image, rng.integers(0, 3, shape, dtype=np.uint8))
    return tmp_path


def opened(data, *names):
    return PreparedCases(data, names, GRID)


def test_a_sample_is_its_case_on_the_grid_and_so_is_its_label(data):
    cases = opened(data, "case_00003", "case_00000")
    assert (cases.count, cases.performance_count) == (2, 2)
    cases.load([0, 1])
    for index, name in enumerate(("case_00003", "case_00000")):
        image, label = prepare_case(read_case(data / name), GRID)
        np.testing.assert_array_equal(cases.sample(index), image)
        np.testing.assert_array_equal(cases.label(index), label)
    assert cases.sample(0).shape == (12, 8, 12)


def test_samples_and_labels_are_mapped_from_files_not_held_in_memory(data):
    cases = opened(data, "case_00000")
    cases.load([0])
    assert isinstance(cases.sample(0), np.memmap)
    assert isinstance(cases.label(0), np.memmap)


def test_unloaded_samples_are_gone_and_the_others_stay(data):
    cases = opened(data, "case_00000", "case_00003")
    cases.load([0, 1])
    cases.unload([0])
    assert cases.sample(1).shape == (12, 8, 12)
    with pytest.raises(KeyError):
        cases.sample(0)


def counting(monkeypatch):
    """Count how often a case is read from its own files."""
    read = []

    def counted(folder):
        read.append(folder.name)
        return read_case(folder)

    monkeypatch.setattr(dataset_module, "read_case", counted)
    return read


def test_a_case_is_prepared_once_also_where_it_is_listed_twice(data, monkeypatch):
    read = counting(monkeypatch)
    cases = opened(data, "case_00000", "case_00185", "case_00400")
    assert sorted(read) == ["case_00000", "case_00185"]
    cases.load([1, 2])
    np.testing.assert_array_equal(cases.sample(1), cases.sample(2))
    opened(data, "case_00400", "case_00000")
    assert len(read) == 2


@pytest.mark.parametrize("file", ["imaging.nii.gz", "segmentation.nii.gz"])
def test_a_case_whose_file_was_written_again_is_prepared_again(data, monkeypatch, file):
    opened(data, "case_00000")
    read = counting(monkeypatch)
    later = (data / "case_00000" / file).stat().st_mtime_ns + 1_000_000
    os.utime(data / "case_00000" / file, ns=(later, later))
    opened(data, "case_00000")
    assert read == ["case_00000"]


def test_a_case_with_other_grey_values_has_another_fingerprint(data):
    before = opened(data, "case_00000").fingerprint
    for file in ("imaging.nii.gz", "segmentation.nii.gz"):
        (data / "case_00000" / file).write_bytes((data / "case_00003" / file).read_bytes())
    assert opened(data, "case_00000").fingerprint != before


def test_another_grid_is_another_preparation(data):
    first, second = prepare_cases(data, ["case_00000"], GRID), prepare_cases(data, ["case_00000"], Grid(window=16))
    assert first != second


def test_the_fingerprint_is_of_contents_and_order(data, tmp_path):
    fingerprint = opened(data, "case_00000", "case_00003").fingerprint
    assert opened(data, "case_00000", "case_00003").fingerprint == fingerprint
    assert opened(data, "case_00003", "case_00000").fingerprint != fingerprint
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("case_00000", "case_00003"):
        (data / name).rename(moved / name)
    assert opened(moved, "case_00000", "case_00003").fingerprint == fingerprint


def test_a_damaged_case_is_named_and_leaves_nothing_in_the_cache(data, tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    (data / "case_00000" / "segmentation.nii.gz").write_bytes(b"no volume")
    with pytest.raises(DataError, match=r"no whole NIfTI file: .*case_00000"):
        opened(data, "case_00000")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_missing_case_is_named_before_any_is_prepared(data, monkeypatch):
    read = counting(monkeypatch)
    with pytest.raises(DataError, match=r"first .*case_00005/imaging\.nii\.gz"):
        opened(data, "case_00000", "case_00005")
    assert read == []


def test_calibration_windows_are_spread_over_the_cases_of_the_list(data, tmp_path):
    (tmp_path / "calibration.txt").write_text("case_00003\ncase_00000\n")
    inputs = list(calibration_inputs(tmp_path / "calibration.txt", data, GRID, tensor="image"))
    assert {tensors["image"].shape for tensors in inputs} == {(1, 1, 8, 8, 8)}
    assert len(inputs) == 4 + 1  # of 4 windows all, of 1 the one
    image, _ = prepare_case(read_case(data / "case_00003"), GRID)
    np.testing.assert_array_equal(inputs[3]["image"][0, 0], image[4:, :, 4:])


def test_of_many_windows_four_are_taken_evenly(write_case, tmp_path):
    image = np.zeros((44, 8, 8), np.int16)
    image[:] = np.arange(44)[:, None, None]
    write_case("case_00050", image, np.zeros(image.shape, np.uint8))
    (tmp_path / "calibration.txt").write_text("case_00050")
    inputs = list(calibration_inputs(tmp_path / "calibration.txt", tmp_path, GRID, tensor="input"))
    firsts = [tensors["input"][0, 0, 0, 0, 0] * 76.9 + 101 for tensors in inputs]
    np.testing.assert_allclose(firsts, [0, 8, 20, 28], atol=1e-4)  # windows 0, 2, 5 and 7 of 10, 4 voxels apart


@pytest.fixture(scope="module")
def volumes():
    found = RandomVolumes()
    found.load(range(found.count))
    return found


@pytest.mark.thorough("workloads")
def test_random_volumes_have_the_official_count_and_average_size(volumes):
    assert volumes.count == volumes.performance_count == 43
    shapes = [volumes.sample(index).shape for index in range(43)]
    assert np.mean([np.prod(shape) for shape in shapes]) == pytest.approx(32_944_795, rel=0.01)
    assert all(length % 64 == 0 and length >= 128 for shape in shapes for length in shape)
    assert len(set(shapes)) > 5


def test_random_volumes_are_the_same_each_time_and_as_light_and_dark_as_scans(volumes):
    volume = volumes.sample(7)
    levels = -79 + 383 * np.random.default_rng(0).random(8, dtype=np.float32)
    np.testing.assert_allclose(volume[0, 0, :8], (levels - 101) / 76.9, atol=1e-5)
    assert volume.dtype == np.float32
    assert volume.min() == pytest.approx((-79 - 101) / 76.9, abs=1e-4)
    assert volume.max() == pytest.approx((304 - 101) / 76.9, abs=1e-4)


def test_random_volumes_are_parts_of_one(volumes):
    assert volumes.sample(0).base is volumes.sample(1).base
