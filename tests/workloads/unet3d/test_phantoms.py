import numpy as np
import pytest
from mlbench_recipes.unet3d.phantoms import AIR, GREY_STEP, draw_scan


@pytest.fixture(scope="module")
def scans():
    return [draw_scan(np.random.default_rng([1, number])) for number in range(12)]


def middle_mm(scan, mask):
    """Where the middle of a part lies, from the middle of the scan: down, back, left."""
    places = np.argwhere(mask).mean(axis=0) - (np.array(mask.shape) - 1) / 2
    return places * scan.spacing


def test_a_scan_is_the_same_each_time_and_others_differ(scans):
    again = draw_scan(np.random.default_rng([1, 3]))
    np.testing.assert_array_equal(again.image, scans[3].image)
    np.testing.assert_array_equal(again.label, scans[3].label)
    assert again.spacing == scans[3].spacing
    assert len({scan.image.shape for scan in scans}) == 12


def test_every_patient_has_two_kidneys_and_a_tumour_at_one_of_them(scans):
    for scan in scans:
        left = np.arange(scan.label.shape[2]) > scan.label.shape[2] / 2
        kidney = scan.label == 1
        assert kidney[..., left].sum() > 300
        assert kidney[..., ~left].sum() > 300
        assert (scan.label == 2).sum() > 20
        assert abs(middle_mm(scan, scan.label == 2)[2]) < 110


def test_kidneys_lie_behind_the_middle_and_are_brighter_than_what_surrounds_them(scans):
    for scan in scans:
        kidney = scan.label == 1
        assert middle_mm(scan, kidney)[1] > 10
        assert 90 < np.median(scan.image[kidney]) < 210
        assert 40 < np.median(scan.image[scan.label == 2]) < 130


def test_no_part_of_a_patient_lies_outside_the_trunk(scans):
    for scan in scans:
        _, back, left = (np.linspace(-1, 1, length) for length in scan.image.shape)
        is_corner = back[:, None] ** 2 + left**2 > 1.03  # the trunk, with its uneven surface
        assert is_corner.mean() > 0.1
        assert (scan.image[:, is_corner] == AIR).all()
        assert (scan.image[scan.label > 0] > AIR).all()


def test_grey_values_are_whole_steps_that_16_bits_hold(scans):
    for scan in scans:
        assert not (scan.image % GREY_STEP).any()
        assert np.abs(scan.image).max() < 2**15


def test_the_head_end_is_distinguished_from_the_foot_end_by_the_lungs(scans):
    for scan in scans:
        if scan.image.shape[0] * scan.spacing[0] > 300:
            dark = (scan.image < -400) & (scan.image > AIR)
            assert dark[: len(dark) // 3].sum() > 50 * dark[-len(dark) // 3 :].sum()
