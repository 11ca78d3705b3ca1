"""Limits of differences, held against what was measured on the mini profiles: batching below them, damage above."""

import mlbench_bert.accuracy
import mlbench_dlrm_v2.accuracy
import mlbench_resnet50.accuracy
import mlbench_retinanet.accuracy
import mlbench_stable_diffusion_xl.accuracy
import mlbench_unet3d.accuracy
import pytest

from mlbench import Precision, Profile
from mlbench.discovery import Plugins
from mlbench.toolkit.language.token_replies import token_limits

LIMITS = {
    "bert": mlbench_bert.accuracy.LIMITS,
    "dlrm-v2": mlbench_dlrm_v2.accuracy.LIMITS,
    "resnet50": mlbench_resnet50.accuracy.LIMITS,
    "retinanet": mlbench_retinanet.accuracy.LIMITS,
    "stable-diffusion-xl": mlbench_stable_diffusion_xl.accuracy.LIMITS,
    "3d-unet": mlbench_unet3d.accuracy.LIMITS,
    "tokens, mini": token_limits(Profile.MINI),
    "tokens, full": token_limits(Profile.FULL),
}

FP32, BF16, INT8 = Precision.FP32, Precision.BF16, Precision.INT8

MEASURED = [  # by benchmarks/reply_agreement.py: means that batching, or other kernels, gave; and that damage gave
    ("bert", FP32, 5.3e-7, 0.0013),  # noise of 0.1 % on all weights
    ("bert", BF16, 0.0032, 0.068),  # noise of 5 %; 2 % gives 0.028
    ("dlrm-v2", FP32, 1.4e-7, 0.0014),  # noise of 0.1 %
    ("dlrm-v2", BF16, 0.0059, 0.071),  # noise of 5 %
    ("dlrm-v2", INT8, 0.0, 0.099),  # noise of 1 %
    ("retinanet", FP32, 1.3e-7, 0.0056),  # noise of 0.5 %
    ("retinanet", BF16, 0.0022, 0.032),  # noise of 2 %
    ("3d-unet", FP32, 0.0001, 0.0035),  # noise of 1 %
    ("3d-unet", BF16, 0.0006, 0.0069),  # noise of 2 %
    ("3d-unet", INT8, 0.0, 0.022),  # noise of 5 %
    ("resnet50", FP32, 0.0, 2 / 497),  # noise of 5 %; images moved by a pixel give 4 / 497
    ("stable-diffusion-xl", FP32, 0.0, 0.22 / 255),  # noise of 0.2 %
    ("stable-diffusion-xl", BF16, 0.24 / 255, 2.1 / 255),  # noise of 2 %
    ("tokens, mini", FP32, 0.0, 0.049),  # answers cut to 95 %
    ("tokens, mini", BF16, 0.0098, 0.051),  # answers cut to 95 %
    ("tokens, mini", INT8, 0.022, 0.089),  # answers cut to 90 %
]


@pytest.mark.parametrize(("workload", "precision", "batching", "damage"), MEASURED)
def test_batching_passes_three_times_over_and_damage_does_not(workload, precision, batching, damage):
    limit = LIMITS[workload][precision].mean
    assert 3 * batching <= limit < damage


def test_one_label_of_500_may_tip_over_in_fp32():
    assert 1 / 500 <= LIMITS["resnet50"][FP32].mean < 2 / 500


@pytest.mark.parametrize("workload", LIMITS)
def test_limits_widen_with_narrower_numbers(workload):
    limits = LIMITS[workload]
    assert set(limits) == set(Precision.KNOWN)
    for narrow, wide in ((Precision.BF16, FP32), (Precision.FP16, FP32), (INT8, BF16), (Precision.FP8, BF16)):
        assert limits[wide].mean <= limits[narrow].mean
        assert limits[wide].one <= limits[narrow].one


@pytest.mark.parametrize("profile", Profile)
def test_a_language_workload_has_the_limits_of_its_profile(profile):
    from mlbench_gptj.accuracy import SummaryRouge

    metric = SummaryRouge([], None, targets=(), profile=profile)
    assert [metric.difference_limits(each) for each in Precision.KNOWN] == list(token_limits(profile).values())
    assert metric.difference_limits(BF16).mean < 0.05 or profile is Profile.FULL


@pytest.mark.parametrize("name", ["gptj", "llama2-70b", "llama3.1-8b", "mixtral-8x7b"])
def test_the_metric_of_a_mini_language_workload_knows_its_profile(name):
    from mlbench import Variant, Weights

    workload = Plugins.discover().workload(name)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    metric = workload.metric(variant, workload.dataset(variant))
    assert metric.difference_limits(FP32) == token_limits(Profile.MINI)[FP32]
