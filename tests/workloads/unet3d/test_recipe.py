import gzip
import io
import zipfile

import nibabel
import numpy as np
import pytest
import torch
from mlbench_recipes.unet3d import recipe
from mlbench_unet3d.kits19 import read_case
from mlbench_unet3d.mini_profile import CALIBRATION, CALIBRATION_LIST, VALIDATION, MiniProfile
from mlbench_unet3d.preprocessing import Scan


def first_scans(purpose, count):
    return list(recipe.scans(purpose, count))


def test_no_scan_serves_two_purposes():
    images = {scan.image.tobytes() for purpose in range(3) for scan in first_scans(purpose, 2)}
    assert len(images) == 6


@pytest.mark.parametrize(
    ("archive", "purpose", "count"), [(VALIDATION, recipe.VALIDATION, 12), (CALIBRATION, recipe.CALIBRATION, 4)]
)
def test_the_shipped_scans_are_the_drawn_ones(archive, purpose, count):
    folder = MiniProfile.shipped().files.unpacked(archive)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert len(names) == count
    for name, scan in zip(names, first_scans(purpose, count), strict=True):
        shipped = read_case(folder / name)
        assert shipped.spacing == pytest.approx(scan.spacing, rel=1e-6)
        np.testing.assert_array_equal(shipped.label, scan.label)
        # a library that rounds differently moves a voxel by a step
        assert (shipped.image != scan.image).mean() < 0.001


def test_an_archive_is_the_same_bytes_each_time_and_holds_its_list(tmp_path):
    volume = np.zeros((2, 3, 4), np.float32)
    scan = Scan(image=volume, label=volume.astype(np.uint8), spacing=(5.0, 0.9, 0.8))
    cases = {"case_00001": scan, "case_00002": scan}
    for name in ("one.zip", "other.zip"):
        recipe.write_scans(tmp_path / name, cases, list_name=CALIBRATION_LIST)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.read(CALIBRATION_LIST) == b"case_00001\ncase_00002\n"
        assert len(archive.namelist()) == 5


def test_files_are_nifti_as_kits19_turns_its_axes_and_tell_no_time():
    volume = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    content = recipe.nifti_gz(volume, (5.0, 0.9, 0.8))
    assert content[4:8] == bytes(4), "when a gzip file was made"
    image = nibabel.Nifti1Image.from_stream(io.BytesIO(gzip.decompress(content)))
    np.testing.assert_array_equal(np.asarray(image.dataobj), volume)
    assert image.header.get_zooms() == pytest.approx((5.0, 0.9, 0.8))
    np.testing.assert_allclose(image.affine[:3, :3], [[0, 0, -0.8], [0, -0.9, 0], [-5, 0, 0]])


def test_windows_of_training_lie_in_their_volume_and_half_of_them_at_the_tumour():
    tumour, shape, rng = np.full((10, 3), 150), (160, 256, 320), np.random.default_rng(0)
    windows = [recipe.window_near(tumour, shape, rng) for _ in range(400)]
    for window in windows:
        assert all(part.stop - part.start == 64 for part in window)
        assert all(0 <= part.start and part.stop <= length for part, length in zip(window, shape, strict=True))
    holding = sum(all(part.start <= 150 < part.stop for part in window) for window in windows)
    assert 0.45 < holding / 400 < 0.6


def test_the_soft_dice_of_sure_logits_is_the_dice_of_labels():
    """One window of 8 voxels; kidney: 1 of 1 found, 2 called so; tumour: 1 of 2 found, 1 called so."""
    labels = torch.tensor([0, 0, 0, 0, 0, 1, 2, 2]).reshape(1, 2, 2, 2)
    called = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2]).reshape(1, 2, 2, 2)
    logits = 50.0 * torch.nn.functional.one_hot(called, 3).movedim(-1, 1)
    kidney, tumour = (2 * 1 + 1) / (2 + 1 + 1), (2 * 1 + 1) / (1 + 2 + 1)
    assert recipe.soft_dice_loss(logits, labels).item() == pytest.approx(1 - (kidney + tumour) / 2, abs=1e-6)
