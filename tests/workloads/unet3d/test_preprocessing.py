import json

import numpy as np
import pytest
from mlbench_unet3d.kits19 import read_case
from mlbench_unet3d.preprocessing import Grid, Scan, axis_fit, prepare_case, zoom_factors

CASES = ["case_00000", "case_00003", "case_00400"]


@pytest.fixture
def scan(golden):
    return lambda case: read_case(golden / "preprocess" / "raw" / case)


def expected(golden):
    return json.loads((golden / "preprocess" / "expected.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_a_small_window_gives_the_references_volumes(golden, scan, case):
    wanted = np.load(golden / "preprocess" / "expected_roi16.npz")
    image, label = prepare_case(scan(case), Grid(window=16))
    assert (image.dtype, label.dtype) == (np.float32, np.uint8)
    np.testing.assert_allclose(image, wanted[f"{case}_image"][0], atol=expected(golden)["tolerance"]["image_abs"])
    np.testing.assert_array_equal(label, wanted[f"{case}_label"][0])


@pytest.mark.parametrize("case", CASES)
def test_the_official_window_gives_the_references_volumes(golden, scan, case):
    wanted = expected(golden)["cases"][case]["roi128"]
    image, label = prepare_case(scan(case), Grid())
    assert [1, *image.shape] == wanted["shape"]
    for down, back, left, grey, mark in wanted["samples_zyx_image_label"]:
        assert image[down, back, left] == pytest.approx(grey, abs=2e-4)
        assert label[down, back, left] == mark
    assert np.bincount(label.ravel()).tolist() == wanted["label_counts"]
    assert image.mean() == pytest.approx(wanted["image_mean"], abs=1e-4)
    assert (image.min(), image.max()) == (wanted["image_min"], wanted["image_max"])


@pytest.mark.parametrize("case", CASES)
def test_zoom_factors_are_the_references(golden, scan, case):
    factors = zoom_factors(scan(case).spacing, Grid().spacing)
    assert factors == pytest.approx(expected(golden)["cases"][case]["zoom_factor"], rel=1e-6)


def test_an_axis_of_any_length_is_padded_or_cut_as_the_reference_does(golden):
    lengths = json.loads((golden / "length_map" / "expected.json").read_text())["map"]
    assert len(lengths) == 234
    for length, wanted in lengths.items():
        fit = axis_fit(int(length), 128)
        kept = int(length) + sum(fit.repeated) - sum(fit.dropped)
        assert [kept + sum(fit.padded), *fit.padded, *fit.dropped, kept] == wanted, length


def test_a_scan_that_has_the_grids_spacing_is_not_resampled():
    image = np.random.default_rng(0).uniform(-79, 304, (16, 16, 16)).astype(np.float32)
    scan = Scan(image=image, label=np.zeros(image.shape, np.uint8), spacing=(1.6, 1.2, 1.2))
    found, _ = prepare_case(scan, Grid(window=16))
    np.testing.assert_array_equal(found, (image - np.float32(101)) / np.float32(76.9))


def test_what_is_filled_up_is_lighter_than_air_and_no_kidney():
    air = Scan(
        image=np.full((12, 16, 16), -1000, np.float32), label=np.ones((12, 16, 16), np.uint8), spacing=(1.6, 1.2, 1.2)
    )
    image, label = prepare_case(air, Grid(window=8))  # 12 is one stride and a half of 8: nothing to do
    assert (image.shape, label.min()) == ((12, 16, 16), 1)
    image, label = prepare_case(air, Grid(window=16))  # below a window: edges are repeated
    assert image.shape == (16, 16, 16)
    np.testing.assert_allclose(image, (-79 - 101) / 76.9, rtol=1e-6)
    assert label.min() == 1
    longer = Scan(image=np.repeat(air.image, 2, 0)[:22], label=np.ones((22, 16, 16), np.uint8), spacing=air.spacing)
    image, label = prepare_case(longer, Grid(window=16))  # 22 = 16 + 6, nearer to 24
    assert image.shape == (24, 16, 16)
    np.testing.assert_allclose(image[[0, 23]], -2.2)
    assert label[[0, 23]].max() == 0
    assert label[1:23].min() == 1
