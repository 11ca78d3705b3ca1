"""3D-UNet from a pickled checkpoint, and KiTS19's cases as gzipped NIfTI files of which one counts twice."""

import io
import zipfile
from pathlib import Path

import mlbench_unet3d
import pytest
import torch
from mlbench_unet3d.graphs import CHECKPOINT_KEY
from mlbench_unet3d.kits19 import IMAGE, LABEL
from mlbench_unet3d.mini_profile import MiniProfile
from mlbench_unet3d.official import inference_cases
from mlbench_unet3d.workload import UNet3D
from safetensors.torch import load_file
from small_sets import SmallSet, md5

MINI = Path(mlbench_unet3d.__file__).parent / "mini"
CASES = ("case_00000", "case_00185", "case_00400")
"""The last has no files of its own: it is the one before once more."""
CALIBRATION_CASES = (50, 51)


def members(name):
    with zipfile.ZipFile(MINI / name) as archive:
        return {path: archive.read(path) for path in archive.namelist()}


def official_checkpoint():
    """Return the weights beside what the training kept."""
    file = io.BytesIO()
    state = load_file(MINI / "weights.safetensors")
    torch.save({"epoch": 9, CHECKPOINT_KEY: state, "optimizer_state_dict": {"state": {}, "param_groups": []}}, file)
    return file.getvalue()


def files_of(file, folders, numbers, address):
    """Return files of a kind by address, for any number of cases from a few drawn scans."""
    found = [content for path, content in sorted(folders.items()) if path.endswith(file)]
    return {address.format(number): found[place % len(found)] for place, number in enumerate(numbers)}


def make_small_set(folder):
    mini, weights = MiniProfile.shipped(), official_checkpoint()
    scans, others = members("validation.zip"), members("calibration.zip")
    cases, image = inference_cases(Path()), "master_{:05}.nii.gz"
    label = "neheller/kits19/master/data/case_{:05}/segmentation.nii.gz"
    return SmallSet(
        workload=UNet3D(),
        contents={
            "model/checkpoint": weights,
            "calibration/list": "".join(f"case_{number:05}\n" for number in CALIBRATION_CASES).encode(),
            "data/imaging": files_of(IMAGE, scans, cases, image),
            "data/segmentation": files_of(LABEL, scans, cases, label),
            "calibration/imaging": files_of(IMAGE, others, CALIBRATION_CASES, image),
            "calibration/segmentation": files_of(LABEL, others, CALIBRATION_CASES, label),
        },
        smaller=f"""
cases = {list(CASES)}
checkpoint_md5 = "{md5(weights)}"
[architecture]
filters = {list(mini.architecture.filters)}
window = {mini.architecture.window}
[grid]
spacing = {list(mini.spacing)}
window = {mini.architecture.window}
[reference]
DICE = {mini.reference["DICE"]}
""",
    )


@pytest.mark.thorough("official forms")
@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_kidneys_are_found_as_well_as_the_model_can_and_the_run_is_not_official(fetched, run_full, backend):
    record, _ = run_full("3d-unet", backend, batch=1)
    assert record.samples["dataset"] == len(CASES)
    assert record.accuracy.scores["DICE"] == pytest.approx(0.906, abs=0.03)
    (said,) = [rule for rule in record.verdict.rules if rule.rule == "official_files"]
    assert "spacing (4.8, 3.6, 3.6), not (1.6, 1.2, 1.2)" in said.measured
    assert not record.verdict.is_conformant
