import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from mlbench_dlrm_v2.accuracy import ClickAuc
from mlbench_dlrm_v2.architecture import DENSE_FEATURES
from mlbench_dlrm_v2.embedding_tables import EmbeddingTable, SeparateTables
from mlbench_dlrm_v2.graphs import TABLE
from mlbench_dlrm_v2.mini_profile import MiniProfile
from mlbench_dlrm_v2.program import Ranking
from torch import nn
from torch.nn import functional

from mlbench import DataError, LoggedReply, Precision, Weights
from mlbench.rules.official import official_rules
from mlbench.toolkit import load_weights


class Pipeline:
    """The shipped network in torch, whole, or with one fault."""

    def __init__(self, *, change=lambda dense: dense, mend=lambda network: None):
        self.profile = MiniProfile.shipped()
        self.data = self.profile.dataset()
        self.network = self.profile.graph(Weights.TRAINED).module()
        mend(self.network)
        self.change = change
        self.metric = ClickAuc(self.data.truth, self.profile.targets(official_rules("dlrm-v2")))

    def execute(self, inputs):
        with torch.inference_mode():
            dense = self.change(torch.from_numpy(inputs["dense"]))
            return {"logits": self.network(dense, torch.from_numpy(inputs["indices"])).numpy()}

    def replies(self, batch=8, count=None):
        count = count or self.data.count
        for start in range(0, count, batch):
            indices = range(start, min(start + batch, count))
            outputs = Ranking().run([self.data.sample(index) for index in indices], {"ranker": self.execute})
            for index, output in zip(indices, outputs, strict=True):
                yield LoggedReply(index=index, data=output.tobytes())

    def auc(self):
        return self.metric.score(list(self.replies()))["AUC"]


def swapped(one, other):
    order = list(range(DENSE_FEATURES))
    order[one], order[other] = other, one
    return lambda dense: dense[:, order]


class OtherTable(EmbeddingTable):
    """A table that pools in another way."""

    def __init__(self, weight, pooled):
        super().__init__(weight)
        self.pooled = pooled

    def forward(self, indices):
        return self.pooled(self.weight, indices)


def pooling(pooled):
    """Replace what is done with a feature's indices."""

    def mend(network):
        profile = MiniProfile.shipped()
        state = load_weights(profile.files.file("weights.safetensors"))
        tables = [OtherTable(state[TABLE.format(number)], pooled) for number in range(26)]
        network.sparse_arch = SeparateTables(tables, profile.architecture.hot_sizes)

    return mend


def without_cross_layer(number):
    def mend(network):
        cross = network.inter_arch["crossnet"]
        for name in ("W_kernels", "V_kernels", "bias"):
            kept = [tensor for place, tensor in enumerate(getattr(cross, name)) if place != number]
            setattr(cross, name, nn.ParameterList(kept))

    return mend


def four_bit(network):
    with torch.no_grad():
        for tensor in network.parameters():
            if tensor.dim() == 2:
                scale = tensor.abs().max() / 7
                tensor.copy_((tensor / scale).round() * scale)


FAULTS = {
    "without the logarithm": ({"change": lambda dense: dense.exp() - 3}, {"99", "99.9"}),
    "only the first index": (
        {"mend": pooling(lambda table, indices: functional.embedding(indices[:, 0], table))},
        {"99", "99.9"},
    ),
    "mean instead of sum": (
        {"mend": pooling(lambda table, indices: functional.embedding_bag(indices, table, mode="mean"))},
        {"99", "99.9"},
    ),
    "two dense features swapped": ({"change": swapped(2, 3)}, {"99", "99.9"}),
    "two dense features of little weight swapped": ({"change": swapped(1, 2)}, {"99.9"}),
    "without the first cross layer": ({"mend": without_cross_layer(0)}, {"99", "99.9"}),
    "without the last cross layer": ({"mend": without_cross_layer(2)}, {"99", "99.9"}),
    "weights of 4 bits, one scale per tensor": ({"mend": four_bit}, {"99.9"}),
}
"""What is broken, and the targets that it must miss."""


@pytest.mark.thorough("workloads")  # a run of it meets its target
def test_the_shipped_network_reaches_the_reference_that_the_recipe_measured():
    pipeline = Pipeline()
    auc = pipeline.auc()
    assert auc == pytest.approx(pipeline.profile.reference["AUC"], abs=0.002)
    assert all(target.is_met_by(auc) for target in pipeline.metric.targets)


@pytest.mark.thorough("workloads", but=["mean instead of sum"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_pipeline_misses_these_targets(fault):
    broken, missed = FAULTS[fault]
    pipeline = Pipeline(**broken)
    auc = pipeline.auc()
    found = {target.name for target in pipeline.metric.targets if not target.is_met_by(auc)}
    assert found == missed, f"{fault}: AUC {auc:.3f}"


@pytest.mark.thorough("workloads")
def test_the_parts_of_the_fault_tests_make_the_unbroken_pipeline():
    unbroken = pooling(lambda table, indices: functional.embedding_bag(indices, table, mode="sum"))
    pipeline = Pipeline(change=swapped(4, 4), mend=unbroken)
    assert pipeline.auc() == pytest.approx(pipeline.profile.reference["AUC"], abs=0.002)


@pytest.mark.thorough("workloads")
def test_a_reply_agrees_with_the_reply_in_another_batch_and_with_no_other_sample():
    pipeline = Pipeline()
    alone, batched = list(pipeline.replies(batch=1)), list(pipeline.replies(batch=16))
    difference, limits = pipeline.metric.difference, pipeline.metric.difference_limits
    batching = [difference(one.data, other.data) for one, other in zip(alone, batched, strict=True)]
    assert np.mean(batching) <= limits(Precision.FP32).mean / 10
    of_like_size = sorted(alone, key=lambda reply: len(reply.data))
    assert all(difference(one.data, other.data) > limits(Precision.INT8).one for one, other in pairwise(of_like_size))


@pytest.mark.slow
def test_weights_with_noise_that_no_score_shows_give_replies_that_differ():
    def add_noise(network):
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weights in network.parameters():
                weights.mul_(1 + 0.05 * torch.randn(weights.shape, generator=generator))

    right, noisy = Pipeline(), Pipeline(mend=add_noise)
    pairs = zip(noisy.replies(count=16), right.replies(count=16), strict=True)
    found = np.mean([right.metric.difference(one.data, other.data) for one, other in pairs])
    for precision in Precision.KNOWN:
        assert found > right.metric.difference_limits(precision).mean, precision


def test_the_day_is_drawn_once_and_drawn_the_same_again(cache, monkeypatch, tmp_path):
    profile = replace(MiniProfile.shipped(), rows=1000)
    folder = profile.day()
    assert folder.is_relative_to(cache)
    assert profile.day() == folder
    before = profile.dataset().fingerprint
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    assert profile.day() != folder
    assert profile.dataset().fingerprint == before


def test_calibration_rows_are_the_other_half_of_the_day():
    profile = replace(MiniProfile.shipped(), rows=1000)
    (inputs,) = profile.calibration_inputs()
    assert {name: array.shape for name, array in inputs.items()} == {"dense": (500, 13), "indices": (500, 214)}
    dense = np.load(profile.day() / "day_23_dense.npy")
    np.testing.assert_array_equal(inputs["dense"], dense[500:])
    assert profile.dataset().truth.ends[-1] == 500


def test_missing_weights_are_named(tmp_path):
    folder = shutil.copytree(MiniProfile.shipped().files.path, tmp_path / "mini")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(DataError, match=r"not found: .*weights\.safetensors"):
        MiniProfile.read(folder).graph(Weights.TRAINED).module()
