import json

import numpy as np
import pytest
from mlbench_retinanet.preprocessing import prepare

from mlbench import DataError
from mlbench.toolkit import read_image

PICTURES = ["cmyk.jpg", "gray.jpg", "rgb_landscape.png", "rgb_portrait.jpg"]


@pytest.mark.parametrize("picture", PICTURES)
def test_images_of_the_official_size_equal_the_references(golden, picture):
    case = json.loads((golden / "preprocess" / "expected.json").read_text())["cases"][picture]
    image = read_image(golden / "preprocess" / "images" / picture)
    assert list(image.shape) == case["decoded_shape_hwc"]
    prepared = prepare(image, (800, 800))
    assert (prepared.shape, prepared.dtype, prepared.flags.c_contiguous) == ((3, 800, 800), np.float32, True)
    assert len(case["samples_800"]) == 200
    for c, y, x, value in case["samples_800"]:
        assert prepared[c, y, x] == pytest.approx(value, abs=case["tolerance"]["abs"])
    np.testing.assert_allclose(prepared.mean((1, 2)), case["mean_per_channel_800"], atol=case["tolerance"]["abs"])


@pytest.mark.parametrize("picture", PICTURES)
def test_every_pixel_of_a_small_image_equals_the_references(golden, picture):
    case = json.loads((golden / "preprocess" / "expected.json").read_text())["cases"][picture]
    expected = np.load(golden / "preprocess" / "expected_40x56.npz")[picture]
    prepared = prepare(read_image(golden / "preprocess" / "images" / picture), (40, 56))
    np.testing.assert_allclose(prepared, expected, rtol=0, atol=case["tolerance"]["abs"])


def test_red_comes_first_and_values_go_from_0_to_1():
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[..., 0] = 255
    np.testing.assert_array_equal(prepare(image, (8, 8)).mean((1, 2)), [1, 0, 0])


def test_between_two_pixels_values_are_not_rounded_to_grey_levels():
    row = prepare(np.array([[[0] * 3, [255] * 3]], dtype=np.uint8), (1, 4))[0, 0]
    np.testing.assert_allclose(row, [0, 0.25, 0.75, 1])  # 63.75 and 191.25 grey levels


def test_a_missing_image_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read: .*absent\.jpg: No such file"):
        read_image(tmp_path / "absent.jpg")


@pytest.mark.parametrize("damage", ["empty", "not an image", "cut short"])
def test_a_corrupt_jpeg_is_named(tmp_path, golden, damage):
    whole = (golden / "preprocess" / "images" / "rgb_portrait.jpg").read_bytes()
    content = {"empty": b"", "not an image": b"no image at all", "cut short": whole[: len(whole) // 2]}[damage]
    path = tmp_path / "7ea40c085fb25f0d.jpg"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"corrupt: .*7ea40c085fb25f0d\.jpg"):
        read_image(path)
