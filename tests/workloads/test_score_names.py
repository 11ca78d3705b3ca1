"""An own run and an imported one of a workload share their scores: the submission checker's names and targets."""

import pytest

from mlbench import Profile, Variant, Weights
from mlbench.rules.official import default_round, official_rules, round_named
from mlbench.submission.scores import read_scores

# what the submission checker v4.1 calls them: MODEL_CONFIG["v4.1"]["accuracy-target"] and "accuracy-upper-limit"
CHECKED = {
    "resnet50": {"acc"},
    "retinanet": {"mAP"},
    "bert": {"F1"},
    "dlrm-v2": {"AUC"},
    "3d-unet": {"DICE"},
    "gptj": {"ROUGE1", "ROUGE2", "ROUGEL", "GEN_LEN"},
    "llama2-70b": {"ROUGE1", "ROUGE2", "ROUGEL", "TOKENS_PER_SAMPLE"},
    "mixtral-8x7b": {"ROUGE1", "ROUGE2", "ROUGEL", "TOKENS_PER_SAMPLE", "gsm8k_accuracy", "mbxp_accuracy"},
    "stable-diffusion-xl": {"CLIP_SCORE", "FID_SCORE"},
}
ROUNDS = {**dict.fromkeys(CHECKED, "v4.1"), "llama3.1-8b": "v5.1"}
"""The round of each that the names are read in."""
CHECKED_LATER = {"llama3.1-8b": {"ROUGE1", "ROUGE2", "ROUGEL", "ROUGELSUM", "GEN_LEN"}}
"""As its MODEL_CONFIG["v5.1"] calls them."""
NAMES = {**CHECKED, **CHECKED_LATER}
OTHERS = {
    "resnet50": ("good", "total"),
    "bert": ("exact_match",),
    "dlrm-v2": ("accuracy", "good", "total", "queries"),
    "3d-unet": ("kidney", "tumor"),
}
"""Scores that a line prints beside those."""


def targets_of(plugins, name):
    return official_rules(plugins.workload(name).rules, round_named(ROUNDS[name])).targets


def mini_metric(workload):
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    return workload.metric(variant, workload.dataset(variant))


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_call_the_scores_as_the_checker_does(plugins, name):
    assert {target.score for target in targets_of(plugins, name)} == NAMES[name]
    assert default_round().rows.keys() == CHECKED.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_mini_run_has_targets_for_the_official_scores(plugins, name):
    metric = mini_metric(plugins.workload(name))
    own = {target.score for target in metric.targets} - {"exact_match", "DIGIT_RATE"}  # which two mini profiles add
    assert own == NAMES[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_line_of_an_own_run_is_imported_under_the_same_names(plugins, name, tmp_path):
    metric = mini_metric(plugins.workload(name))
    targets = targets_of(plugins, name)
    scores = {target.score: target.reference for target in targets}
    (tmp_path / "accuracy.txt").write_text(metric.line({**scores, **dict.fromkeys(OTHERS.get(name, ()), 1)}) + "\n")
    imported = read_scores(tmp_path / "accuracy.txt", targets).scores
    assert imported == pytest.approx(scores, rel=1e-4)
