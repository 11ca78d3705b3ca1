import json
from pathlib import Path

import numpy as np
import pytest
from mlbench_resnet50.preprocessing import (
    crop_for_onnx,
    crop_for_torchvision,
    prepare_for_onnx,
    prepare_for_torchvision,
    size_after_resize,
)

from mlbench import DataError
from mlbench.toolkit import read_image

PICTURES = [
    "jpeg_cmyk.jpg",
    "jpeg_exif_rot6.jpg",
    "jpeg_gray.jpg",
    "jpeg_rgb_landscape.jpg",
    "png_rgb_down.png",
    "png_rgb_landscape.png",
    "png_rgb_portrait_odd.png",
    "png_square_256.png",
    "png_thin.png",
    "png_tiny_upscale.png",
]
TORCHVISION_PICTURES = [name for name in PICTURES if name not in ("jpeg_cmyk.jpg", "jpeg_rgb_landscape.jpg")]


def expected(folder: Path, picture: str) -> tuple[dict, np.ndarray]:
    """What the reference says of a picture: its entry and its crop before normalisation."""
    stem = picture.split(".", maxsplit=1)[0]
    crops = np.load(next(folder.glob("*.npz")))
    return json.loads((folder / "expected.json").read_text())["cases"][stem], crops[stem]


def grey_levels_apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.abs(one.astype(np.float64) - other.astype(np.float64))


@pytest.mark.parametrize("picture", PICTURES)
def test_decoding_and_resizing_give_the_references_sizes(golden: Path, picture: str):
    case, _ = expected(golden / "preprocess", picture)
    image = read_image(golden / "preprocess" / "images" / picture)
    assert list(image.shape) == case["decoded_shape_hwc"]
    assert list(size_after_resize(image, 256)) == case["resized_wh"]


@pytest.mark.parametrize("picture", PICTURES)
def test_the_onnx_recipe_equals_the_reference(golden: Path, picture: str):
    case, crop = expected(golden / "preprocess", picture)
    allowed = case["tolerance"]
    image = read_image(golden / "preprocess" / "images" / picture)
    apart = grey_levels_apart(crop_for_onnx(image), crop)
    assert apart.max() <= allowed["max_abs"]
    assert apart.mean() <= allowed["mean_abs"]

    prepared = prepare_for_onnx(image)
    assert (prepared.shape, prepared.dtype, prepared.flags.c_contiguous) == ((3, 224, 224), np.float32, True)
    for point in case["nchw_float32_samples"]:
        assert abs(prepared[point["c"], point["y"], point["x"]] - point["value"]) <= allowed["max_abs"]
    np.testing.assert_allclose(prepared.mean((1, 2)), case["nchw_mean_per_channel"], atol=allowed["mean_abs"])
    np.testing.assert_allclose(prepared.std((1, 2)), case["nchw_std_per_channel"], atol=allowed["max_abs"])


@pytest.mark.parametrize("picture", TORCHVISION_PICTURES)
def test_the_torchvision_recipe_equals_the_reference(golden: Path, picture: str):
    case, crop_every_2 = expected(golden / "preprocess_torchvision", picture)
    allowed = case["tolerance"]
    is_jpeg = picture.endswith(".jpg")
    image = read_image(golden / "preprocess" / "images" / picture)
    apart = grey_levels_apart(crop_for_torchvision(image)[::2, ::2], crop_every_2)
    assert apart.max() <= allowed["jpeg_max_abs_grey_levels" if is_jpeg else "max_abs_grey_levels"]
    assert apart.mean() <= allowed["mean_abs_grey_levels"]

    prepared = prepare_for_torchvision(image)
    assert (prepared.shape, prepared.dtype, prepared.flags.c_contiguous) == ((3, 224, 224), np.float32, True)
    for point in case["nchw_float32_samples"]:
        assert abs(prepared[point["c"], point["y"], point["x"]] - point["value"]) <= allowed["sample_abs"]
    np.testing.assert_allclose(prepared.mean((1, 2)), case["nchw_mean_per_channel"], atol=allowed["sample_abs"])


def test_lossless_pictures_come_out_of_the_onnx_recipe_without_any_difference(golden: Path):
    for picture in PICTURES:
        if picture.startswith("png"):
            _, crop = expected(golden / "preprocess", picture)
            image = read_image(golden / "preprocess" / "images" / picture)
            np.testing.assert_array_equal(crop_for_onnx(image), crop, err_msg=picture)


def test_an_image_as_small_as_asked_for_is_only_cropped():
    image = np.arange(72 * 72 * 3, dtype=np.uint32).astype(np.uint8).reshape(72, 72, 3)
    np.testing.assert_array_equal(crop_for_torchvision(image, 72, 64), image[4:68, 4:68])


def test_a_missing_image_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"cannot be read: .*absent\.JPEG: No such file"):
        read_image(tmp_path / "absent.JPEG")


@pytest.mark.parametrize("damage", ["empty", "not an image", "cut short"])
def test_a_corrupt_jpeg_is_named(tmp_path: Path, golden: Path, damage: str):
    whole = (golden / "preprocess" / "images" / "jpeg_rgb_landscape.jpg").read_bytes()
    content = {"empty": b"", "not an image": b"no image at all", "cut short": whole[: len(whole) // 2]}[damage]
    path = tmp_path / "ILSVRC2012_val_00000001.JPEG"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"corrupt: .*ILSVRC2012_val_00000001\.JPEG"):
        read_image(path)
