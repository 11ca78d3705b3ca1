import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from mlbench_resnet50.accuracy import Top1
from mlbench_resnet50.dataset import image_folder
from mlbench_resnet50.mini_profile import MiniProfile
from mlbench_resnet50.preprocessing import TORCHVISION_MEAN, TORCHVISION_STD, crop_for_torchvision

from mlbench import DataError, LoggedReply, Weights
from mlbench.rules.official import official_rules


def top1_with(prepare: Callable[[np.ndarray], np.ndarray]) -> tuple[float, Top1]:
    """The score of the shipped network, in torch, when images are prepared like this; and the metric."""
    profile = MiniProfile.shipped()
    folder = profile.files.unpacked("validation.zip")
    dataset = image_folder(folder, prepare, size=profile.image_size, classes=profile.classes)
    dataset.load(range(dataset.count))
    network = profile.graph(Weights.TRAINED).module()

    def classifier(inputs):
        with torch.inference_mode():
            return {"logits": network(torch.from_numpy(inputs["image"])).numpy()}

    metric = Top1(dataset.labels, profile.targets(official_rules("resnet50")))
    replies = []
    for start in range(0, dataset.count, 71):
        indices = range(start, start + 71)
        labels = profile.program.run([dataset.sample(index) for index in indices], {"classifier": classifier})
        replies += [
            LoggedReply(index=index, data=label.tobytes()) for index, label in zip(indices, labels, strict=True)
        ]
    return metric.score(replies)["acc"], metric


def crop(image: np.ndarray) -> np.ndarray:
    return crop_for_torchvision(image, shorter_side=72, size=64).transpose(2, 0, 1).astype(np.float32)


def normalised(levels: np.ndarray) -> np.ndarray:
    mean, std = TORCHVISION_MEAN[:, None, None], TORCHVISION_STD[:, None, None]
    return (levels / 255 - mean) / std


FAULTS = {
    "blue and red swapped": lambda image: normalised(crop(image[..., ::-1])),
    "no normalisation": lambda image: crop(image) / 255,
    "values from 0 to 255": crop,
    "rows and columns swapped": lambda image: normalised(crop(image.transpose(1, 0, 2))),
}


@pytest.mark.slow
def test_the_shipped_network_reaches_the_reference_that_the_recipe_measured():
    score, metric = top1_with(MiniProfile.shipped().prepare)
    assert score == pytest.approx(MiniProfile.shipped().reference["acc"], abs=0.21)  # one image of 497 more or less
    assert metric.targets[0].is_met_by(score)


@pytest.mark.thorough("workloads", but=["blue and red swapped"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_preprocessing_misses_the_target(fault: str):
    score, metric = top1_with(FAULTS[fault])
    assert not metric.targets[0].is_met_by(score), f"{fault}: {score:.3f} %"


def test_the_parts_of_the_fault_tests_make_the_unbroken_recipe():
    image = np.random.default_rng(0).integers(0, 256, (72, 72, 3), dtype=np.uint8)
    np.testing.assert_allclose(normalised(crop(image)), MiniProfile.shipped().prepare(image), atol=1e-6)


def test_calibration_images_are_120_and_none_of_them_is_a_validation_image():
    profile = MiniProfile.shipped()
    images = np.concatenate([inputs["image"] for inputs in profile.calibration_inputs()])
    assert images.shape == (120, 3, 64, 64)
    contents = {}
    for archive in ("validation.zip", "calibration.zip"):
        with zipfile.ZipFile(profile.files.path / archive) as file:
            contents[archive] = {file.read(name) for name in file.namelist()}
    assert len(contents["validation.zip"]) == 498
    assert contents["validation.zip"].isdisjoint(contents["calibration.zip"])


def test_a_damaged_data_archive_is_noticed(tmp_path: Path):
    folder = shutil.copytree(MiniProfile.shipped().files.path, tmp_path / "mini")
    (folder / "validation.zip").write_bytes(b"no archive")
    sha256 = MiniProfile.shipped().files.sha256["validation.zip"]
    description = (folder / "mini.toml").read_text().replace(sha256, "0" * 64)  # the intact one is in the cache
    (folder / "mini.toml").write_text(description)
    profile = MiniProfile.read(folder)
    with pytest.raises(DataError, match=r"corrupt or another version: .*validation\.zip"):
        profile.dataset()
