import zipfile
from pathlib import Path

import numpy as np
from mlbench_recipes.handwritten_digits import SEED, validation_and_training_digits
from mlbench_recipes.resnet50.recipe import draw_image, draw_pictures, write_pictures
from mlbench_resnet50.dataset import read_label_list
from mlbench_resnet50.mini_profile import MiniProfile

from mlbench.toolkit import decode_image


def test_no_digit_serves_both_validation_and_training():
    validation, training = validation_and_training_digits()
    assert (len(validation), len(training)) == (497, 1300)
    assert not {pixels.tobytes() for pixels in validation.pixels} & {pixels.tobytes() for pixels in training.pixels}


def test_the_shipped_labels_are_the_drawn_ones_and_the_images_look_the_same(tmp_path: Path):
    validation, _ = validation_and_training_digits()
    drawn = list(draw_pictures(validation, 20, np.random.default_rng([SEED, 0])))
    with zipfile.ZipFile(MiniProfile.shipped().files.path / "validation.zip") as archive:
        archive.extractall(tmp_path)
    for picture, file in zip(drawn, read_label_list(tmp_path / "val_map.txt", classes=20), strict=False):
        assert picture.label == file.label
        shipped = decode_image((tmp_path / file.name).read_bytes(), file.name).astype(int)
        assert np.abs(decode_image(picture.jpeg, "drawn") - shipped).max() <= 16  # another OpenCV rounds differently


def test_warm_ink_is_redder_and_cool_ink_bluer_than_the_other():
    block = np.ones((8, 8), dtype=np.float32)
    for is_cool, stronger, weaker in [(False, 0, 2), (True, 2, 0)]:
        middle = draw_image(block, is_cool, np.random.default_rng(3))[30:42, 30:42].mean((0, 1))
        assert middle[stronger] > middle[weaker] + 50


def test_an_archive_is_the_same_bytes_each_time(tmp_path: Path):
    validation, _ = validation_and_training_digits()
    pictures = list(draw_pictures(validation, 3, np.random.default_rng(0)))
    for name in ("one.zip", "other.zip"):
        write_pictures(tmp_path / name, pictures, prefix="digits", list_name="val_map.txt")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == ["val_map.txt", *(f"digits_0000000{number}.JPEG" for number in (1, 2, 3))]
