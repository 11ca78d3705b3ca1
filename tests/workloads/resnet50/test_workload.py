from pathlib import Path

import numpy as np
import pytest
from mlbench_resnet50.program import labels_from_classes
from mlbench_resnet50.workload import ResNet50
from PIL import Image
from workload_variants import variants_of

from mlbench import DataError, Weights

full, mini = variants_of("resnet50")

TORCHVISION_WEIGHTS = Path("resnet50-19c8e357.pth")
ONNX_WEIGHTS = Path("resnet50_v1.onnx")


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    """Two images in the official layout: one red, one blue."""
    for number, colour in enumerate([(255, 0, 0), (0, 0, 255)], start=1):
        Image.new("RGB", (300, 260), colour).save(tmp_path / f"ILSVRC2012_val_{number:08d}.JPEG", quality=100)
    (tmp_path / "val_map.txt").write_text("ILSVRC2012_val_00000001.JPEG 65\nILSVRC2012_val_00000002.JPEG 970\n")
    (tmp_path / "option_1.txt").write_text("ILSVRC2012_val_00000002.JPEG\n")
    return tmp_path


def test_without_files_random_weights_run_on_noise_of_the_official_shape_and_claim_no_accuracy():
    workload, variant = ResNet50(), full(Weights.RANDOM)
    dataset = workload.dataset(variant)
    assert dataset.count == 1024
    dataset.load([5])
    assert dataset.sample(5).shape == (3, 224, 224)
    assert workload.metric(variant, dataset) is None
    assert list(workload.model(variant).graphs["classifier"].calibration()) == []


def test_torchvisions_weights_go_with_torchvisions_recipe_and_logits(imagenet: Path):
    variant = full(data=imagenet, weights=TORCHVISION_WEIGHTS, calibration=imagenet / "option_1.txt")
    workload = ResNet50()
    dataset, graph = workload.dataset(variant), workload.model(variant).graphs["classifier"]
    dataset.load([0])
    np.testing.assert_allclose(dataset.sample(0)[0, 0, 0], (254 / 255 - 0.485) / 0.229, atol=0.02)
    assert graph.outputs[0].shape[1:] == (1000,)
    (calibration,) = graph.calibration()
    assert calibration["image"].shape == (1, 3, 224, 224)


def test_the_onnx_weights_go_with_their_own_recipe_and_label_base(imagenet: Path):
    variant = full(data=imagenet, weights=ONNX_WEIGHTS, calibration=imagenet / "option_1.txt")
    workload = ResNet50()
    dataset, model = workload.dataset(variant), workload.model(variant)
    dataset.load([0])
    np.testing.assert_allclose(dataset.sample(0)[0, 0, 0], 254 - 123.68, atol=1.5)
    (calibration,) = model.graphs["classifier"].calibration()
    assert calibration["input_tensor:0"].shape == (1, 3, 224, 224)
    labels = model.program.run([dataset.sample(0)], {"classifier": lambda _: {"ArgMax:0": np.array([66])}})
    assert labels.tolist() == labels_from_classes(np.array([66])).tolist() == [[65]]


def test_the_official_metric_compares_with_the_official_reference(imagenet: Path):
    variant = full(data=imagenet, weights=TORCHVISION_WEIGHTS)
    metric = ResNet50().metric(variant, ResNet50().dataset(variant))
    assert metric is not None
    assert metric.targets[0].reference == 76.46


def test_missing_official_weights_are_named_when_a_backend_asks_for_them(imagenet: Path):
    variant = full(data=imagenet, weights=imagenet / "resnet50-19c8e357.pth")
    graph = ResNet50().model(variant).graphs["classifier"]
    with pytest.raises(DataError, match=r"weights file not found: .*resnet50-19c8e357\.pth"):
        graph.module()


def test_the_mini_profile_has_497_images_20_classes_and_its_own_target():
    workload, variant = ResNet50(), mini()
    dataset = workload.dataset(variant)
    assert (dataset.count, dataset.performance_count) == (497, 497)
    dataset.load([496])
    assert dataset.sample(496).shape == (3, 64, 64)
    metric = workload.metric(variant, dataset)
    assert metric is not None
    (target,) = metric.targets
    assert target.reference >= 97
    assert target.lower == pytest.approx(target.reference * 0.99)
