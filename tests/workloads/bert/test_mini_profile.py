import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from mlbench_bert.accuracy import SquadF1
from mlbench_bert.mini_profile import MiniProfile

from mlbench import DataError, LoggedReply, Precision, Weights
from mlbench.rules.official import official_rules

BATCH = 32


class Pipeline:
    """The shipped network in torch, whole, or with one fault."""

    def __init__(self, *, change=lambda inputs: inputs, swapped=False, only_first_windows=False):
        self.profile = MiniProfile.shipped()
        self.data = self.profile.dataset()
        self.module = self.profile.graph(Weights.TRAINED).module()
        self.change, self.swapped, self.only_first_windows = change, swapped, only_first_windows
        self.metric = SquadF1(
            self.data.questions,
            self.data.features,
            self.data.vocabulary,
            tokens=self.profile.windows.tokens,
            targets=self.profile.targets(official_rules("bert")),
        )

    def read(self, inputs):
        with torch.inference_mode():
            outputs = self.module(*(torch.from_numpy(array) for array in self.change(dict(inputs)).values()))
        starts, ends = (output.numpy() for output in outputs)
        return {"start_logits": ends if self.swapped else starts, "end_logits": starts if self.swapped else ends}

    def replies(self, batch=BATCH, count=None):
        questions = [feature.question for feature in self.data.features]
        indices = [
            index
            for index, question in enumerate(questions)
            if not self.only_first_windows or index == 0 or questions[index - 1] != question
        ]
        for start in range(0, len(indices[:count]), batch):
            part = indices[start : start + batch]
            outputs = self.profile.program.run([self.data.sample(index) for index in part], {"reader": self.read})
            for index, output in zip(part, outputs, strict=True):
                yield LoggedReply(index=index, data=output.tobytes())

    def scores(self):
        return self.metric.score(list(self.replies()))


FAULTS = {
    "segment ids zero": {"change": lambda inputs: inputs | {"segment_ids": np.zeros_like(inputs["segment_ids"])}},
    "mask ignored": {"change": lambda inputs: inputs | {"input_mask": np.ones_like(inputs["input_mask"])}},
    "start and end swapped": {"swapped": True},
    "only the first window": {"only_first_windows": True},
}


@pytest.mark.thorough("workloads")
def test_the_shipped_network_reaches_the_reference_that_the_recipe_measured():
    pipeline = Pipeline()
    scores = pipeline.scores()
    assert scores["F1"] == pytest.approx(pipeline.profile.reference["F1"], abs=0.05)
    assert scores["exact_match"] == pytest.approx(
        pipeline.profile.reference["exact_match"], abs=0.21
    )  # one question of 480
    assert all(target.is_met_by(scores["F1"]) for target in pipeline.metric.targets)


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_pipeline_misses_the_target(fault):
    pipeline = Pipeline(**FAULTS[fault])
    f1 = pipeline.scores()["F1"]
    assert not pipeline.metric.targets[0].is_met_by(f1), f"{fault}: F1 {f1:.3f}"


@pytest.mark.slow
def test_a_reply_agrees_with_the_reply_in_another_batch_and_with_no_other_sample():
    pipeline = Pipeline()
    alone, batched = list(pipeline.replies(batch=1, count=96)), list(pipeline.replies(count=96))
    difference, limits = pipeline.metric.difference, pipeline.metric.difference_limits
    batching = [difference(one.data, other.data) for one, other in zip(alone, batched, strict=True)]
    assert np.mean(batching) <= limits(Precision.FP32).mean / 10
    assert all(difference(one.data, other.data) > limits(Precision.INT8).one for one, other in pairwise(alone))


@pytest.mark.thorough("workloads")
def test_weights_with_noise_that_no_score_shows_give_replies_that_differ():
    right, noisy = Pipeline(), Pipeline()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in noisy.module.parameters():
            weights.mul_(1 + 0.05 * torch.randn(weights.shape, generator=generator))
    pairs = zip(noisy.replies(count=16), right.replies(count=16), strict=True)
    found = np.mean([right.metric.difference(one.data, other.data) for one, other in pairs])
    for precision in Precision.KNOWN:
        assert found > right.metric.difference_limits(precision).mean, precision


def test_calibration_windows_are_100_and_of_no_validation_passage():
    profile = MiniProfile.shipped()
    inputs = list(profile.calibration_inputs())
    assert len(inputs) == 100
    assert all(list(tensors) == ["input_ids", "input_mask", "segment_ids"] for tensors in inputs)
    validation = {tuple(feature.tokens.input_ids) for feature in profile.dataset().features}
    calibration = {tuple(ids[mask == 1]) for ids, mask, _ in (map(np.squeeze, tensors.values()) for tensors in inputs)}
    assert calibration.isdisjoint(validation)


def test_a_missing_shipped_file_is_named(tmp_path):
    folder = shutil.copytree(MiniProfile.shipped().files.path, tmp_path / "mini")
    (folder / "dev.json").unlink()
    with pytest.raises(DataError, match=r"not found: .*dev\.json.* Install mlbench again"):
        MiniProfile.read(folder).dataset()
