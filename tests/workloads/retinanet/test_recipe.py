import json
import zipfile
from itertools import islice

import cv2
import numpy as np
import pytest
from mlbench_recipes.handwritten_digits import SEED, validation_and_training_digits
from mlbench_recipes.retinanet.recipe import ARCHITECTURE, SELECTION, training_batches
from mlbench_recipes.retinanet.scenes import draw_ink, draw_scenes, write_validation
from mlbench_retinanet.dataset import ANNOTATIONS
from mlbench_retinanet.mini_profile import VALIDATION, MiniProfile

from mlbench.toolkit import decode_image


@pytest.fixture(scope="module")
def scenes():
    """The first of the shipped scenes, drawn again."""
    validation, _ = validation_and_training_digits()
    return list(islice(draw_scenes(validation, np.random.default_rng([SEED, 0])), 20))


def test_no_digit_serves_both_validation_and_training():
    validation, training = validation_and_training_digits()
    assert (len(validation), len(training)) == (497, 1300)
    assert not {pixels.tobytes() for pixels in validation.pixels} & {pixels.tobytes() for pixels in training.pixels}


def test_the_shipped_boxes_are_the_drawn_ones_and_the_images_look_the_same(scenes):
    with zipfile.ZipFile(MiniProfile.shipped().files.file(VALIDATION)) as archive:
        document = json.loads(archive.read(ANNOTATIONS))
        for number, (scene, image) in enumerate(zip(scenes, document["images"], strict=False), start=1):
            assert (image["id"], image["height"], image["width"]) == (number, scene.height, scene.width)
            found = [each for each in document["annotations"] if each["image_id"] == number]
            assert [each["category_id"] for each in found] == scene.labels
            corners = [[x, y, x + width, y + height] for x, y, width, height in (each["bbox"] for each in found)]
            assert np.abs(np.array(corners) - scene.boxes).max() <= 1  # another OpenCV rounds differently
            shipped = decode_image(archive.read(f"validation/data/{image['file_name']}"), "shipped").astype(int)
            apart = np.abs(decode_image(scene.jpeg, "drawn") - shipped)
            assert apart.mean() <= 1
    assert len(document["images"]) == 200
    assert [category["id"] for category in document["categories"]] == list(range(10))


def test_boxes_lie_within_their_image_around_ink_and_do_not_overlap(scenes):
    for scene in scenes:
        assert 1 <= len(scene.boxes) <= 6
        assert (scene.boxes[:, :2] >= 0).all()
        assert (scene.boxes[:, 2:] <= [scene.width, scene.height]).all()
        taken = np.zeros((scene.height, scene.width), dtype=int)
        for left, top, right, bottom in scene.boxes.astype(int):
            taken[top:bottom, left:right] += 1
        assert taken.max() == 1


def test_what_is_to_be_found_is_in_a_warm_ink(scenes):
    warmth = []
    for scene in scenes:
        image = decode_image(scene.jpeg, "drawn").astype(int)
        for left, top, right, bottom in scene.boxes.astype(int):
            part = image[top:bottom, left:right].reshape(-1, 3)
            warmth.append(np.percentile(part[:, 0] - part[:, 2], 90))
    assert np.median(warmth) > 60
    assert np.mean(np.array(warmth) > 20) > 0.95


def test_cool_ink_is_bluer_and_warm_ink_redder():
    ground, cover = np.full((4, 4, 3), 0.3), np.ones((4, 4))
    for is_cool, stronger, weaker in [(False, 0, 2), (True, 2, 0)]:
        colour = draw_ink(ground, cover, is_cool=is_cool, rng=np.random.default_rng(3)).mean((0, 1))
        assert colour[stronger] > colour[weaker] + 0.2


def test_an_archive_is_the_same_bytes_each_time(tmp_path, scenes):
    for name in ("one.zip", "other.zip"):
        write_validation(tmp_path / name, scenes[:3])
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        images = [f"validation/data/000000000000000{number}.jpg" for number in (1, 2, 3)]
        assert archive.namelist() == [ANNOTATIONS, *images]


def test_boxes_of_a_training_batch_are_where_the_resized_images_have_them(scenes):
    scenes = scenes[:16]  # all of them are in the first batch
    images, targets = next(training_batches(scenes))
    assert images.shape == (16, 3, 128, 128)
    digits = sum(len(target["labels"]) for target in targets)
    assert digits == sum(len(scene.labels) for scene in scenes)
    for target in targets:
        assert 0 <= target["boxes"].min() < target["boxes"].max() <= 128
    first = next(scene for scene in scenes if scene.labels == targets[0]["labels"].tolist())
    scale = np.array([128 / first.width, 128 / first.height] * 2)
    np.testing.assert_allclose(targets[0]["boxes"], first.boxes * scale, rtol=1e-6)
    np.testing.assert_allclose(
        images[0].permute(1, 2, 0),
        cv2.resize(decode_image(first.jpeg, "").astype(np.float32), (128, 128), interpolation=cv2.INTER_LINEAR) / 255,
        atol=1e-6,
    )


def test_the_shipped_network_has_the_recipes_dimensions():
    assert (MiniProfile.shipped().architecture, MiniProfile.shipped().selection) == (ARCHITECTURE, SELECTION)
