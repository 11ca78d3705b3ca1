import json

import nibabel
import numpy as np
import pytest
from mlbench_unet3d.accuracy import Dice, case_dice

from mlbench import InvalidRunError, LoggedReply
from mlbench.rules.official import official_rules

TARGETS = official_rules("3d-unet").targets

LOGS = ["accuracy_int32_unsorted", "accuracy_uint8"]


def cube(*labels):
    """A label volume of 2 x 2 x 2, of these eight labels."""
    return np.array(labels, dtype=np.uint8).reshape(2, 2, 2)


HALVES = cube(0, 0, 0, 0, 1, 1, 2, 2)


def dice(*labels):
    return Dice(labels.__getitem__, len(labels), TARGETS)


def reply(index, label):
    return LoggedReply(index=index, data=np.asarray(label, np.uint8).tobytes())


@pytest.mark.parametrize("log", LOGS)
def test_the_official_script_prints_the_same_line_for_the_same_log(golden, log):
    case = json.loads((golden / log / "expected.json").read_text())
    names = json.loads((golden / log / "preprocessed_files.json").read_text())["file_list"]
    entries = json.loads((golden / log / "mlperf_log_accuracy.json").read_text())
    labels = [
        np.asarray(nibabel.load(golden / log / "nifti" / name / "segmentation.nii.gz").dataobj, np.uint8)
        for name in names
    ]
    metric = Dice(labels.__getitem__, len(labels), TARGETS, dtype=case["dtype"])
    replies = [LoggedReply(index=entry["qsl_idx"], data=bytes.fromhex(entry["data"])) for entry in entries]

    scores = metric.score(replies)

    assert metric.line(scores) == case["accuracy_line"]
    for index, found in metric.cases(replies).items():
        wanted = case["per_case"][names[index]]
        assert found.kidney == pytest.approx(wanted["kidney"], abs=1e-12)
        assert found.tumour == pytest.approx(wanted["tumor"], abs=1e-12)
        assert found.composite == pytest.approx(wanted["composite"], abs=1e-12)


def test_the_score_of_a_case_is_the_references(golden):
    volumes = np.load(golden / "dice" / "inputs.npz")
    cases = json.loads((golden / "dice" / "expected.json").read_text())["cases"]
    for name, wanted in cases.items():
        found = case_dice(volumes[f"{name}_prediction"], volumes[f"{name}_target"])
        assert found.kidney == pytest.approx(wanted["kidney"], abs=1e-12)
        assert found.tumour == pytest.approx(wanted["tumor"], abs=1e-12)
        assert found.composite == pytest.approx(wanted["composite"], abs=1e-12)


def test_a_tumour_that_is_called_kidney_costs_both_scores():
    found = case_dice(cube(0, 0, 0, 0, 1, 1, 1, 2), HALVES)
    assert found.kidney == pytest.approx(2 * 2 / (3 + 2), abs=1e-6)
    assert found.tumour == pytest.approx(2 * 1 / (1 + 2), abs=1e-6)


def test_scores_are_means_over_the_cases_with_the_digits_that_the_script_prints():
    third = cube(0, 0, 0, 0, 0, 0, 1, 2)  # kidney 0 of 2, tumour 1 of 2
    scores = dice(HALVES, HALVES, HALVES).score([reply(2, third), reply(0, HALVES), reply(1, HALVES)])
    assert scores == {"DICE": 0.77778, "kidney": 0.6667, "tumor": 0.8889}


def test_a_case_listed_twice_counts_twice():
    once = dice(HALVES, cube(*[0] * 8)).score([reply(0, HALVES), reply(1, HALVES)])
    twice = dice(HALVES, HALVES, cube(*[0] * 8)).score([reply(0, HALVES), reply(1, HALVES), reply(2, HALVES)])
    assert (once["DICE"], twice["DICE"]) == (0.5, 0.66667)


def test_the_official_targets_are_99_and_999_per_mille_of_the_reference():
    required, stricter = dice(HALVES).targets
    assert (required.score, required.name, required.required) == ("DICE", "99", True)
    assert (stricter.score, stricter.name, stricter.required) == ("DICE", "99.9", False)
    assert required.lower == pytest.approx(0.853083, abs=1e-12)
    assert stricter.lower == pytest.approx(0.8608383, abs=1e-12)
    assert required.is_met_by(0.85309)
    assert not required.is_met_by(0.85308)


def test_a_case_that_was_never_answered_leaves_no_score():
    with pytest.raises(InvalidRunError, match="1 of 2 samples were answered"):
        dice(HALVES, HALVES).score([reply(1, HALVES)])


def test_a_case_that_was_answered_twice_is_named():
    with pytest.raises(InvalidRunError, match="sample 1 was answered twice"):
        dice(HALVES, HALVES).score([reply(1, HALVES), reply(1, HALVES)])


@pytest.mark.parametrize("payload", [b"", b"\x00" * 7, b"\x00" * 9])
def test_a_reply_of_another_size_than_its_case_is_named(payload):
    with pytest.raises(InvalidRunError, match=f"sample 0 has {len(payload)} bytes, not 8"):
        dice(HALVES).score([LoggedReply(index=0, data=payload)])


def test_a_reply_with_a_fourth_label_is_named():
    with pytest.raises(InvalidRunError, match="sample 0 contains labels other than 0, 1 and 2"):
        dice(HALVES).score([reply(0, cube(0, 0, 0, 0, 1, 1, 2, 3))])


@pytest.mark.parametrize("index", [-1, 1])
def test_a_reply_to_an_unknown_sample_is_named(index):
    with pytest.raises(InvalidRunError, match=f"sample {index} was answered, but there are 1"):
        dice(HALVES).score([reply(index, HALVES)])


class TestDifference:
    """Of replies that two runs gave to the same sample: 1,000 voxels, 200 of them kidney or tumour."""

    REFERENCE = np.repeat(np.array([0, 1, 2], np.uint8), [800, 150, 50])

    def difference(self, changed, label):
        found = self.REFERENCE.copy()
        found[changed] = label
        return dice(HALVES).difference(found.tobytes(), self.REFERENCE.tobytes())

    def test_voxels_that_differ_are_measured_by_those_that_show_something(self):
        assert self.difference([], 0) == 0
        assert self.difference([0, 800], 2) == 0.01
        assert self.difference([0, 1, 800], 2) == 0.015

    def test_a_reply_that_calls_all_background_differs_wholly_though_it_has_most_voxels_right(self):
        assert self.difference(range(1000), 0) == 1

    def test_a_reply_of_another_size_differs_wholly(self):
        metric, reference = dice(HALVES), self.REFERENCE.tobytes()
        assert metric.difference(reference[:-1], reference) == 1

    def test_where_nothing_was_found_a_voxel_is_all(self):
        metric = dice(HALVES)
        assert metric.difference(bytes(8), bytes(8)) == 0
        assert metric.difference(bytes(7) + b"\x01", bytes(8)) == 1
