import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from mlbench_unet3d import preprocessing
from mlbench_unet3d.accuracy import Dice
from mlbench_unet3d.kits19 import read_case
from mlbench_unet3d.mini_profile import CALIBRATION, VALIDATION, MiniProfile
from mlbench_unet3d.preprocessing import DEVIATION, MEAN
from mlbench_unet3d.program import segmentation

from mlbench import DataError, LoggedReply, Weights
from mlbench.rules.official import official_rules

PROFILE = MiniProfile.shipped()


def prepared_volumes():
    """The validation scans on the grid, as the dataset has them."""
    data = PROFILE.dataset()
    data.load(range(data.count))
    return [data.sample(index) for index in range(data.count)]


def scores_of(volumes, *, before=lambda volume: volume, after=lambda labels: labels):
    """The official scores of the shipped network in torch; volumes and labels may be tampered with."""
    data, graph = PROFILE.dataset(), PROFILE.graph(Weights.TRAINED)
    program, module = segmentation(graph, windows_per_call=2), graph.module()

    def segmenter(inputs):
        with torch.inference_mode():
            return {"logits": module(torch.from_numpy(inputs["image"])).numpy()}

    replies = []
    for index, volume in enumerate(volumes):
        (labels,) = program.run([before(volume)], {"segmenter": segmenter})
        replies.append(LoggedReply(index=index, data=after(labels).tobytes()))
    return Dice(data.label, data.count, PROFILE.targets(official_rules("3d-unet"))).score(replies)


def is_accurate(scores):
    return scores["DICE"] >= PROFILE.reference["DICE"] * 0.99


@pytest.mark.thorough("workloads")
def test_the_shipped_network_reaches_the_reference_that_the_recipe_measured():
    scores = scores_of(prepared_volumes())
    assert scores["DICE"] == pytest.approx(PROFILE.reference["DICE"], abs=2e-4)
    assert scores["kidney"] == pytest.approx(PROFILE.reference["kidney"], abs=2e-4)
    assert scores["tumor"] == pytest.approx(PROFILE.reference["tumor"], abs=2e-4)
    assert is_accurate(scores)


FAULTS = {
    "back and left swapped": (lambda volume: volume.swapaxes(1, 2), lambda labels: labels.swapaxes(1, 2)),
    "upside down": (lambda volume: volume[::-1], lambda labels: labels[::-1]),
}


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_order_of_axes_misses_the_target(fault):
    before, after = FAULTS[fault]
    scores = scores_of(prepared_volumes(), before=before, after=after)
    assert not is_accurate(scores), f"{fault}: {scores}"


@pytest.mark.thorough("workloads")
def test_grey_values_that_are_not_clipped_miss_the_target(monkeypatch):
    monkeypatch.setattr(preprocessing, "normalise", lambda image: (image - np.float32(MEAN)) / np.float32(DEVIATION))
    folder = PROFILE.files.unpacked(VALIDATION)
    scans = [read_case(folder / name) for name in PROFILE.cases]
    scores = scores_of([preprocessing.prepare_case(scan, PROFILE.grid)[0] for scan in scans])
    assert not is_accurate(scores), scores


def test_calibration_windows_are_of_four_cases_that_are_not_validated_on():
    windows = [inputs["image"] for inputs in PROFILE.calibration_inputs()]
    assert {window.shape for window in windows} == {(1, 1, 64, 64, 64)}
    assert 4 <= len(windows) <= 16
    folder = PROFILE.files.unpacked(CALIBRATION)
    names = (folder / "calibration.txt").read_text().split()
    assert len(names) == 4
    assert not set(names) & set(PROFILE.cases)


@pytest.mark.parametrize("name", [VALIDATION, CALIBRATION])
def test_a_damaged_or_missing_archive_is_noticed(tmp_path, name):
    folder = shutil.copytree(PROFILE.files.path, tmp_path / "mini")
    files = replace(PROFILE.files, path=folder, sha256={name: "0" * 64})  # of this the cache has nothing yet
    with pytest.raises(DataError, match=f"corrupt or another version: .*{name}"):
        files.unpacked(name)
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"not found: .*{name}.* Install mlbench again"):
        files.unpacked(name)
