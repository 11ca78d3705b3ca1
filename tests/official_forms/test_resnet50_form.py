"""ResNet-50 from ImageNet's tar, Caffe's archive of labels and torchvision's checkpoint, all small."""

import io
import zipfile
from pathlib import Path

import mlbench_resnet50
import pytest
import torch
from mlbench_resnet50.mini_profile import MiniProfile
from mlbench_resnet50.workload import ResNet50
from safetensors.torch import load_file
from small_sets import SmallSet, md5, tar_of

pytestmark = pytest.mark.slow

MINI = Path(mlbench_resnet50.__file__).parent / "mini"
IMAGES = 497


def official_name(number):
    return f"ILSVRC2012_val_{number:08d}.JPEG"


def old_checkpoint(state):
    """Return a checkpoint as torch wrote them in 2018: no archive, parameters, and no count of batches."""
    kept = {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    is_buffer = {name: "running" in name for name in kept}
    file = io.BytesIO()
    torch.save(
        {name: tensor if is_buffer[name] else torch.nn.Parameter(tensor) for name, tensor in kept.items()},
        file,
        _use_new_zipfile_serialization=False,
    )
    return file.getvalue()


def make_small_set(folder):
    with zipfile.ZipFile(MINI / "validation.zip") as archive:
        labels = [line.split()[1] for line in archive.read("val_map.txt").decode().splitlines()]
        images = [archive.read(f"digits_val_{number:08d}.JPEG") for number in range(1, IMAGES + 1)]
    numbers = range(1, IMAGES + 1)
    val = "".join(f"{official_name(number)} {labels[number - 1]}\n" for number in numbers).encode()
    weights = old_checkpoint(load_file(MINI / "weights.safetensors"))
    return SmallSet(
        workload=ResNet50(),
        contents={
            "model/torchvision": weights,
            "data/imagenet-val": tar_of({official_name(number): images[number - 1] for number in numbers}),
            "data/val-map": tar_of({"synsets.txt": b"n01440764\n", "train.txt": b"x 0\n", "val.txt": val}, "w:gz"),
            "calibration/option-1": "".join(f"{official_name(number)}\n" for number in range(1, 21)).encode(),
        },
        smaller=f"""
torchvision_md5 = "{md5(weights)}"
shorter_side = 72
[architecture]
planes = 8
classes = 20
image_size = 64
[reference]
acc = {MiniProfile.shipped().reference["acc"]}
""",
    )


def test_fetch_says_that_addresses_are_the_data_folders_own(fetched, data):
    assert f"resnet50: addresses and checksums are those of {data / 'resnet50.sources.toml'}" in fetched
    assert "resnet50: complete" in fetched


@pytest.mark.thorough("official forms", but=["pytorch"])
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_images_are_classified_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full, backend):
    record, shown = run_full("resnet50", backend)
    assert ", a smaller set than the official one" in shown
    assert record.samples["dataset"] == IMAGES
    assert record.accuracy.scores["acc"] == pytest.approx(98.99396, abs=0.3)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "planes 8, not 64" in said.measured
    assert (said.required, record.verdict.is_conformant) == (False, False)
    assert record.settings["workload.weights"].layer == "data"
