"""The outputs that mini profiles ship, and what the rule `output_difference` sees."""

import dataclasses
import importlib

import numpy as np
import pytest
import torch

from mlbench import EnginePlan, LoggedReply, Precision, Profile, Samples, Variant, Weights
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.rules.scoring import output_difference

WORKLOADS = (
    *("resnet50", "retinanet", "3d-unet", "bert", "dlrm-v2"),
    *("gptj", "llama2-70b", "llama3.1-8b", "mixtral-8x7b", "stable-diffusion-xl"),
)
LARGEST_FILE = 300_000
"""Bytes."""


class Shipped:
    """A shipped mini profile, and what a run of some of its samples is away from the reference."""

    def __init__(self, name):
        self.workload = Plugins.discover().workload(name)
        self.variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=self.workload.options)
        package = type(self.workload).__module__.split(".")[0]
        self.profile = importlib.import_module(f"{package}.mini_profile").MiniProfile.shipped()
        self.reference = self.profile.output_reference()

    def difference(self, backend, precision=Precision.FP32, *, count=8, damage=None):
        data = self.workload.dataset(self.variant)
        indices = sorted(self.reference.outputs)[:count]
        data.load(indices)
        model, metric = self.workload.model(self.variant), self.workload.metric(self.variant, data)
        if damage:
            for graph in model.graphs.values():
                whole = graph.module
                graph.module = lambda whole=whole: damaged(whole(), damage)
        backend = Plugins.discover().backend(backend)
        backend = backend.with_options(dataclasses.replace(backend.options, threads=1))
        samples, reply = Samples(indices, indices, data), RecordingReply()
        with engine_of(backend, model, EnginePlan(precision=precision, batch=4, batching="bucketed")) as engine:
            engine.submit(samples, reply)
            engine.flush()
            assert reply.wait(samples, patience_s=120)
        assert not reply.failures
        replies = [LoggedReply(index=index, data=answer.tobytes()) for index, (answer,) in reply.answers.items()]
        outputs = {index: self.reference.outputs[index] for index in indices}
        return output_difference(metric, dataclasses.replace(self.reference, outputs=outputs), replies, precision)


def damaged(module, share):
    """Add noise to all parameters of a module, as `benchmarks/mini_damage.py` does."""
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        for weight in module.parameters():
            if not getattr(weight, "is_damaged", False):
                weight.add_(share * weight.std(correction=0) * torch.randn(weight.shape, generator=generator))
                weight.is_damaged = True
    return module


@pytest.fixture(scope="module", params=WORKLOADS)
def shipped(request):
    return Shipped(request.param)


def test_reference_outputs_are_shipped_small_and_belong_to_samples(shipped):
    file = shipped.profile.files.path / "reference_outputs.npz"
    assert file.stat().st_size < LARGEST_FILE
    assert shipped.reference.outputs
    assert all(np.isfinite(values).all() for values in shipped.reference.outputs.values())


def test_a_lower_precision_may_be_further_away_and_fp32_is_always_bounded(shipped):
    bounds = shipped.reference.bounds
    in_order = [bounds[each] for each in ("fp32", "fp16", "bf16", "int8") if each in bounds]
    assert in_order == sorted(in_order)
    assert 0 < bounds[Precision.FP32]


@pytest.mark.thorough("workloads")
def test_an_honest_fp32_run_is_within_the_bound_of_fp32(shipped):
    """On a runtime whose kernels are others than those that made the reference."""
    difference = shipped.difference("onnxruntime")
    assert difference.value <= difference.bound


@pytest.mark.thorough("workloads", but=["resnet50"])
def test_noise_of_a_tenth_on_all_weights_is_not_fp32(shipped):
    count = (
        len(shipped.reference.outputs)
        if shipped.workload.name in {"resnet50", "gptj", "llama2-70b", "llama3.1-8b"}
        else 8
    )
    difference = shipped.difference("pytorch", damage=0.1, count=count)
    assert difference.value > difference.bound


@pytest.mark.thorough("workloads", but=["bert"])
@pytest.mark.parametrize("name", ["bert", "dlrm-v2", "retinanet", "stable-diffusion-xl"])
def test_bf16_that_is_called_fp32_is_seen_where_replies_are_numbers(name):
    shipped = Shipped(name)
    found = shipped.difference("pytorch", Precision.BF16)
    assert shipped.reference.bounds[Precision.FP32] < found.value <= found.bound
