"""The table of rules against the published numbers and against LoadGen's embedded mlperf.conf."""

import mlperf_loadgen
import pytest

from mlbench.contracts.rules import Tokens
from mlbench.errors import UsageError
from mlbench.rules.official import default_round, official_rules
from mlbench.rules.round_parts import Category

NAMES = (
    *("resnet50", "retinanet", "bert", "dlrm-v2", "3d-unet"),
    *("gptj", "llama2-70b", "mixtral-8x7b", "stable-diffusion-xl"),
)

S, O, SS, MS = "Server", "Offline", "SingleStream", "MultiStream"  # noqa: E741 - as the rules abbreviate them

SCENARIOS = {  # rules document v4.1, Benchmarks: datacenter, edge
    "resnet50": ({S, O}, {SS, MS, O}),
    "retinanet": ({S, O}, {SS, MS, O}),
    "bert": ({S, O}, {SS, O}),
    "dlrm-v2": ({S, O}, set()),
    "3d-unet": ({O}, {SS, O}),
    "gptj": ({S, O}, {SS, O}),
    "llama2-70b": ({S, O}, set()),
    "mixtral-8x7b": ({S, O}, set()),
    "stable-diffusion-xl": ({S, O}, {SS, O}),
}

LIMITS = {  # submission checker v4.1, by accuracy variant: score, lower, upper
    ("resnet50", "99"): {"acc": (75.6954, None)},
    ("retinanet", "99"): {"mAP": (37.1745, None)},
    ("bert", "99"): {"F1": (89.96526, None)},
    ("bert", "99.9"): {"F1": (90.783126, None)},
    ("dlrm-v2", "99"): {"AUC": (79.5069, None)},
    ("dlrm-v2", "99.9"): {"AUC": (80.22969, None)},
    ("3d-unet", "99"): {"DICE": (0.853083, None)},
    ("3d-unet", "99.9"): {"DICE": (0.8608383, None)},
    ("gptj", "99"): {
        "ROUGE1": (42.556635, None),
        "ROUGE2": (19.922265, None),
        "ROUGEL": (29.688219, None),
        "GEN_LEN": (3615190.2, None),
    },
    ("gptj", "99.9"): {
        "ROUGE1": (42.9435135, None),
        "ROUGE2": (20.1033765, None),
        "ROUGEL": (29.9581119, None),
        "GEN_LEN": (3615190.2, None),
    },
    ("llama2-70b", "99"): {
        "ROUGE1": (43.986888, None),
        "ROUGE2": (21.814848, None),
        "ROUGEL": (28.330038, None),
        "TOKENS_PER_SAMPLE": (265.005, 323.895),
    },
    ("llama2-70b", "99.9"): {
        "ROUGE1": (44.3867688, None),
        "ROUGE2": (22.0131648, None),
        "ROUGEL": (28.5875838, None),
        "TOKENS_PER_SAMPLE": (265.005, 323.895),
    },
    ("mixtral-8x7b", "99"): {
        "ROUGE1": (45.036189, None),
        "ROUGE2": (23.050071, None),
        "ROUGEL": (30.057885, None),
        "gsm8k_accuracy": (73.0422, None),
        "mbxp_accuracy": (59.5188, None),
        "TOKENS_PER_SAMPLE": (131.31, 160.49),
    },
    ("stable-diffusion-xl", "range"): {
        "CLIP_SCORE": (31.68631873, 31.81331801),
        "FID_SCORE": (23.01085758, 23.95007626),
    },
}


def test_there_are_the_nine_workloads():
    assert tuple(default_round().rows) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_category_demands_the_official_scenarios(name):
    categories = official_rules(name).category_scenarios
    datacenter, edge = SCENARIOS[name]
    assert set(categories[Category.DATACENTER]) == datacenter
    assert set(categories.get(Category.EDGE, ())) == edge
    assert set(official_rules(name).scenarios) == datacenter | edge


def test_only_the_datacenter_takes_the_strict_variant_of_bert():
    assert official_rules("bert").variants == {
        "99": (Category.DATACENTER, Category.EDGE),
        "99.9": (Category.DATACENTER,),
    }


@pytest.mark.parametrize(("name", "variant"), LIMITS)
def test_targets_are_the_checkers(name, variant):
    targets = [target for target in official_rules(name).targets if target.name == variant]
    found = {target.score: (target.lower, target.upper) for target in targets}
    assert found.keys() == LIMITS[name, variant].keys()
    for score, (lower, upper) in LIMITS[name, variant].items():
        assert found[score][0] == pytest.approx(lower, rel=1e-12)
        assert found[score][1] == (upper and pytest.approx(upper, rel=1e-12))


def test_every_variant_has_targets_and_only_the_first_is_required():
    assert {(name, target.name) for name in NAMES for target in official_rules(name).targets} == LIMITS.keys()
    strict = [target.name for name in NAMES for target in official_rules(name).targets if not target.required]
    assert set(strict) == {"99.9"}


@pytest.mark.parametrize("name", NAMES)
def test_loadgens_own_configuration_agrees(name):
    rules, settings = official_rules(name), mlperf_loadgen.TestSettings()
    assert settings.FromConfig("", name, "Server", 0) == 0
    assert rules.performance_sample_count == settings.performance_sample_count_override or name == "3d-unet"
    assert rules.equal_issue == settings.sample_concatenate_permutation
    assert (rules.tokens is Tokens.MEASURED) == settings.use_token_latencies
    if rules.server_latency_ms:
        assert rules.server_latency_ms * 1_000_000 == settings.server_target_latency_ns
    if rules.ttft_ms:
        limits_ns = (rules.ttft_ms * 1_000_000, rules.tpot_ms * 1_000_000)
        assert limits_ns == (settings.ttft_latency, settings.tpot_latency)
    if rules.tokens is Tokens.INFERRED:
        assert rules.tokens_per_sample == settings.token_latency_scaling_factor == 69
    offline = mlperf_loadgen.TestSettings()
    offline.FromConfig("", name, "Offline", 0)
    assert rules.offline_min_samples == offline.min_query_count


@pytest.mark.parametrize(("scenario", "queries"), [("SingleStream", 100), ("MultiStream", 662), ("Server", 100)])
def test_loadgens_own_query_counts_agree(scenario, queries):
    settings = mlperf_loadgen.TestSettings()
    settings.FromConfig("", "resnet50", scenario, 0)
    assert default_round().scenarios[scenario].min_query_count == settings.min_query_count == queries


@pytest.mark.parametrize(
    ("name", "samples", "tests"),
    [
        ("resnet50", 50000, "TEST01 TEST04 TEST05"),
        ("retinanet", 24781, "TEST01 TEST05"),
        ("bert", 10833, "TEST01 TEST05"),
        ("dlrm-v2", 330067, "TEST01 TEST05"),
        ("3d-unet", 43, "TEST01 TEST05"),
        ("gptj", 13368, ""),
        ("llama2-70b", 24576, "TEST06"),
        ("mixtral-8x7b", 15000, "TEST06"),
        ("stable-diffusion-xl", 5000, "TEST01 TEST04"),
    ],
)
def test_datasets_and_compliance_tests_are_the_official_ones(name, samples, tests):
    assert official_rules(name).samples == samples
    assert " ".join(official_rules(name).compliance) == tests


def test_seeds_are_those_of_the_round():
    seeds = default_round().seeds
    normal, test05 = seeds.normal, seeds.test05
    assert (normal.qsl, normal.sample_index, normal.schedule) == (
        3066443479025735752,
        10688027786191513374,
        14962580496156340209,
    )
    assert (test05.qsl, test05.sample_index, test05.schedule) == (
        16799458546791641818,
        5453809927556429288,
        5435552105434836064,
    )
    assert seeds.accuracy_log == 720381539243781796


def test_token_workloads_report_token_rates_except_as_a_latency():
    assert official_rules("gptj").token_key("Offline") == "result_inferred_tokens_per_second"
    assert official_rules("llama2-70b").token_key("Server") == "result_completed_tokens_per_second"
    assert official_rules("gptj").token_key("SingleStream") is None
    assert official_rules("resnet50").token_key("Offline") is None


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no rules for workload 'bert-99'.*bert, dlrm-v2"):
        official_rules("bert-99")
