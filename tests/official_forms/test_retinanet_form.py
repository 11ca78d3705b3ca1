"""RetinaNet from a TorchScript archive, zipped annotations whose ids have holes, and the images that these name."""

import io
import json
import warnings
import zipfile
from pathlib import Path

import mlbench_retinanet
import pytest
import torch
from mlbench_retinanet.graphs import build_network
from mlbench_retinanet.mini_profile import MiniProfile
from mlbench_retinanet.workload import RetinaNet
from safetensors.torch import load_file
from small_sets import SmallSet, md5

MINI = Path(mlbench_retinanet.__file__).parent / "mini"
IMAGES, CALIBRATION_IMAGES = 64, 4


def members(name):
    with zipfile.ZipFile(MINI / name) as archive:
        return {path: archive.read(path) for path in archive.namelist()}


def torchscript(architecture):
    """Return the mini model's weights as torch.jit.save writes a network."""
    network = build_network(architecture).eval()
    network.load_state_dict(load_file(MINI / "weights.safetensors"))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        size = architecture.image_size
        torch.jit.save(torch.jit.trace(network, torch.zeros(1, 3, size, size), check_trace=False), file)
    return file.getvalue()


def annotations_with_holes(document):
    """Return annotations of the first images, with ids out of order and with holes, as the official ones have."""
    images = document["images"][:IMAGES]
    renamed = {image["id"]: 7 * (IMAGES - place) for place, image in enumerate(images)}
    for image in images:
        image["id"] = renamed[image["id"]]
    boxes = [box for box in document["annotations"] if box["image_id"] in renamed]
    for box in boxes:
        box["image_id"] = renamed[box["image_id"]]
    return document | {"images": images, "annotations": boxes}


def make_small_set(folder):
    mini = MiniProfile.shipped()
    scenes, training = members("validation.zip"), members("calibration.zip")
    document = annotations_with_holes(json.loads(scenes["annotations/openimages-mlperf.json"]))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("openimages-mlperf_annotations_2.1.json", json.dumps(document))
    images = {Path(image["file_name"]).name for image in document["images"]}
    names = training["calibration.txt"].decode().split()[:CALIBRATION_IMAGES]
    weights = torchscript(mini.architecture)
    sizes = {"architecture": mini.architecture, "selection": mini.selection}
    tables = "".join(
        f"[{name}]\n" + "".join(f"{field} = {json.dumps(getattr(part, field))}\n" for field in part.__slots__)
        for name, part in sizes.items()
    )
    return SmallSet(
        workload=RetinaNet(),
        contents={
            "model/pth": weights,
            "data/annotations": packed.getvalue(),
            "data/images": {
                f"validation/{Path(path).name}": image for path, image in scenes.items() if Path(path).name in images
            },
            "calibration/list": "\n".join(names).encode(),
            "calibration/images": {f"train/{name}": training[f"train/data/{name}"] for name in names},
        },
        smaller=f'torchscript_md5 = "{md5(weights)}"\n{tables}[reference]\nmAP = {mini.reference["mAP"]}\n',
    )


@pytest.mark.thorough("official forms")
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_objects_are_found_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full, backend):
    record, _ = run_full("retinanet", backend)
    assert record.samples["dataset"] == IMAGES
    assert record.accuracy.scores["mAP"] == pytest.approx(75.16, abs=3)  # of all 200 images
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "planes 16, not 64" in said.measured
    assert not record.verdict.is_conformant
