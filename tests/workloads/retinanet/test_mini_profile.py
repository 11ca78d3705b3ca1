import zipfile
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from detections_one_by_one import detections_of
from mlbench_retinanet.accuracy import MeanAveragePrecision
from mlbench_retinanet.anchors import anchors_by_level
from mlbench_retinanet.detection import Decoder
from mlbench_retinanet.graphs import MEAN, STD
from mlbench_retinanet.mini_profile import CALIBRATION, VALIDATION, MiniProfile
from mlbench_retinanet.program import detection

from mlbench import LoggedReply, Precision, Weights
from mlbench.rules.official import official_rules

MEANS, STDS = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))


class Pipeline:
    """The shipped network in torch, whole, or with one fault."""

    def __init__(self, *, change=lambda pixels: pixels, overlap=0.5, **constants):
        self.profile = MiniProfile.shipped()
        self.data = self.profile.dataset()
        self.data.load(range(self.data.count))
        self.module = self.profile.graph(Weights.TRAINED).module()
        for name, value in constants.items():
            self.module.get_buffer(name).fill_(value)
        self.change = change
        selection = replace(self.profile.selection, largest_overlap=overlap)
        self.program = detection(self.profile.architecture, selection)
        self.metric = MeanAveragePrecision(self.data.annotations, self.profile.targets(official_rules("retinanet")))

    def detector(self, inputs):
        with torch.inference_mode():
            logits, offsets = self.module(self.change(torch.from_numpy(inputs["images"])))
        return {"logits": logits.numpy(), "offsets": offsets.numpy()}

    def replies(self, batch=25, count=200):
        for start in range(0, count, batch):
            samples = [self.data.sample(index) for index in range(start, start + batch)]
            for sample, rows in zip(samples, self.program.run(samples, {"detector": self.detector}), strict=True):
                yield LoggedReply(index=sample.index, data=rows.tobytes())

    def score(self):
        return self.metric.score(list(self.replies()))["mAP"]


FAULTS = {
    "blue and red swapped": {"change": lambda pixels: pixels.flip(1)},
    "no mean": {"mean": 0.0},
    "no deviation": {"std": 1.0},
    "normalised twice": {"change": lambda pixels: (pixels - MEANS) / STDS},
    "hardly any suppression": {"overlap": 0.9},
}


@pytest.mark.thorough("workloads")
def test_a_batch_of_the_shipped_images_has_the_detections_of_each_alone_to_the_bit():
    pipeline = Pipeline()
    images = np.stack([pipeline.data.sample(index).pixels for index in range(pipeline.data.count)])
    outputs = pipeline.detector({"images": images})
    architecture, selection = pipeline.profile.architecture, pipeline.profile.selection
    levels = anchors_by_level(architecture.image_hw, architecture.map_shapes, architecture.anchor_bases)
    decoder = Decoder(levels, image_hw=architecture.image_hw, selection=selection)
    found = decoder.detections(outputs["logits"], outputs["offsets"])
    assert len(found) == 200
    for ours, logits, offsets in zip(found, outputs["logits"], outputs["offsets"], strict=True):
        theirs = detections_of(levels, architecture.image_hw, selection, logits, offsets)
        for our, their in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(our, their)


@pytest.mark.thorough("workloads")
def test_the_shipped_network_reaches_the_reference_that_the_recipe_measured():
    pipeline = Pipeline()
    score = pipeline.score()
    assert score == pytest.approx(pipeline.profile.reference["mAP"], abs=0.1)
    assert pipeline.metric.targets[0].is_met_by(score)


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_pipeline_misses_the_target(fault):
    pipeline = Pipeline(**FAULTS[fault])
    score = pipeline.score()
    assert not pipeline.metric.targets[0].is_met_by(score), f"{fault}: {score:.3f} %"


@pytest.mark.thorough("workloads")
def test_a_reply_agrees_with_the_reply_in_another_batch_and_with_no_other_sample():
    pipeline = Pipeline()
    alone, batched = list(pipeline.replies(batch=1, count=100)), list(pipeline.replies(count=100))
    difference, limits = pipeline.metric.difference, pipeline.metric.difference_limits
    batching = [difference(one.data, other.data) for one, other in zip(alone, batched, strict=True)]
    assert np.mean(batching) <= limits(Precision.FP32).mean / 10
    for one, other in pairwise(alone):
        relabelled = np.frombuffer(other.data, "<f4").reshape(-1, 7).copy()
        relabelled[:, 0] = one.index  # so that only what was found tells them apart
        assert difference(one.data, relabelled.tobytes()) > limits(Precision.INT8).one


def test_calibration_images_are_64_and_none_of_them_is_a_validation_image():
    profile = MiniProfile.shipped()
    inputs = list(profile.calibration_inputs())
    assert [each["images"].shape for each in inputs] == [(1, 3, 128, 128)] * 64
    contents = {}
    for name in (VALIDATION, CALIBRATION):
        with zipfile.ZipFile(profile.files.file(name)) as file:
            contents[name] = {file.read(entry) for entry in file.namelist()}
    assert len(contents[VALIDATION]) == 201
    assert contents[VALIDATION].isdisjoint(contents[CALIBRATION])
