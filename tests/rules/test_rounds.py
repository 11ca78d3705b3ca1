"""The rounds after v4.1 against numbers read in their official checkers and mlperf.conf, and a round of one's own."""

import re
from datetime import date
from pathlib import Path

import pytest

from mlbench.contracts.rules import Tokens
from mlbench.errors import UsageError
from mlbench.loadgen.scenarios import INTERACTIVE, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.rules.entry_demand import EntryDemand
from mlbench.rules.official import official_rules, recognise_round, round_named
from mlbench.rules.own import usual_round
from mlbench.rules.round_files import check_rules_name, known_rounds, official_scenarios, rounds_with
from mlbench.rules.round_parts import Category, check_types
from mlbench.rules.tiers import official_limits
from tests.rules.conftest import SomeWorkload

ALL = ("v4.1", "v5.0", "v5.1", "v6.0", "v6.1")
LATER = ALL[1:]

SEEDS = {  # mlperf.conf of each round: qsl, sample index, schedule
    "v4.1": (3066443479025735752, 10688027786191513374, 14962580496156340209),
    "v5.0": (6023615788873153749, 15036839855038426416, 9933818062894767841),
    "v5.1": (1780908523862526354, 14771362308971278857, 18209322760996052031),
    "v6.0": (2465351861681999779, 14276810075590677512, 3936089224930324775),
    "v6.1": (2085463073848966840, 2747215439041700203, 16159082839903944936),
}
DEADLINES = dict(zip(ALL, ("2024-07-26", "2025-02-28", "2025-08-01", "2026-02-13", "2026-07-31"), strict=True))

OF_THE_NINE = {  # the checkers' tables: categories of each round, D datacenter, E edge
    "resnet50": ("DE", "DE", "E", "E", "E"),
    "retinanet": ("DE", "DE", "DE", "DE", ""),
    "bert": ("DE", "E", "E", "E", "E"),
    "dlrm-v2": ("D", "D", "D", "", ""),
    "3d-unet": ("DE", "DE", "DE", "DE", "DE"),
    "gptj": ("DE", "DE", "", "", ""),
    "llama2-70b": ("D", "D", "D", "D", "D"),
    "mixtral-8x7b": ("D", "D", "D", "D", ""),
    "stable-diffusion-xl": ("DE", "DE", "DE", "E", "E"),
}

TOKEN_LIMITS = {  # mlperf.conf and rules documents, ms: time to first token, per output token
    ("v4.1", "llama2-70b", "Server"): (2000, 200),
    ("v5.0", "llama2-70b-interactive", "Server"): (450, 40),
    ("v5.1", "llama2-70b", "Server"): (2000, 200),
    ("v5.1", "llama2-70b", "Interactive"): (450, 40),
    ("v6.0", "llama2-70b", "Interactive"): (450, 40),
    ("v6.1", "llama2-70b", "Interactive"): (450, 40),
    ("v5.1", "llama3_1-8b", "Server"): (2000, 100),
    ("v5.1", "llama3_1-8b", "Interactive"): (500, 30),
    ("v5.1", "llama3_1-405b", "Server"): (6000, 175),
    ("v6.0", "llama3_1-405b", "Interactive"): (4500, 80),
    ("v5.1", "deepseek-r1", "Server"): (2000, 80),
    ("v6.0", "deepseek-r1", "Interactive"): (1500, 15),
    ("v6.0", "gpt-oss-120b", "Server"): (3000, 80),
    ("v6.0", "gpt-oss-120b", "Interactive"): (2000, 15),
}


def test_there_are_five_rounds_oldest_first():
    assert known_rounds() == ALL


@pytest.mark.parametrize("name", ALL)
def test_seeds_and_deadlines_are_those_of_the_round(name):
    normal = round_named(name).seeds.normal
    assert (normal.qsl, normal.sample_index, normal.schedule) == SEEDS[name]
    assert round_named(name).deadline == date.fromisoformat(DEADLINES[name])
    assert round_named(name).min_duration_ms == 600_000


@pytest.mark.parametrize("name", ALL)
def test_a_round_is_recognised_by_one_of_its_seeds(name):
    assert recognise_round({"effective_schedule_rng_seed": SEEDS[name][2]}) == name
    assert recognise_round({"effective_qsl_rng_seed": 13281865557512327830}) == "v4.0"


@pytest.mark.parametrize("name", OF_THE_NINE)
def test_each_of_the_nine_is_in_the_categories_of_each_round(name):
    for number, of in enumerate(ALL):
        workloads = round_named(of).workloads
        found = {each for each in workloads[name].category_scenarios} if name in workloads else set()
        assert "".join(sorted(str(each)[0].upper() for each in found)) == OF_THE_NINE[name][number], of


@pytest.mark.parametrize(("of", "name", "scenario"), TOKEN_LIMITS)
def test_limits_of_tokens_are_those_of_the_scenario(of, name, scenario):
    limits = round_named(of).rules(name).latencies_in(scenario)
    assert (limits.ttft_ms, limits.tpot_ms) == TOKEN_LIMITS[of, name, scenario]


def test_interactive_is_server_under_limits_of_its_own():
    rules = round_named("v5.1").rules("llama2-70b")
    found = official_limits(rules, INTERACTIVE)
    assert (found.ttft_ms, found.tpot_ms, found.min_query_count, found.samples_per_query) == (450, 40, 100, 1)
    assert (official_limits(rules, SERVER).ttft_ms, official_limits(rules, SERVER).tpot_ms) == (2000, 200)
    assert found.seeds.qsl == SEEDS["v5.1"][0]
    assert rules.token_key_of(INTERACTIVE) == "result_completed_tokens_per_second"
    assert (INTERACTIVE.loadgen, round_named("v5.1").scenarios["Interactive"].loadgen) == ("Server", "Server")
    assert round_named("v5.1").scenarios["Interactive"].configuration_suffix == "-interactive"


def test_llama2_owes_offline_and_one_of_server_and_interactive():
    for of in ("v5.1", "v6.0", "v6.1"):
        rules = round_named(of).rules("llama2-70b")
        assert rules.category_scenarios[Category.DATACENTER] == ("Offline",)
        assert rules.any_of[Category.DATACENTER] == ("Server", "Interactive")
        assert rules.scenarios == ("Server", "Interactive", "Offline")
        assert EntryDemand(category=Category.DATACENTER).scenarios(rules) == rules.scenarios
    assert official_rules("llama2-70b").any_of == {}
    assert round_named("v5.1").rules("resnet50").scenarios_of_both == (
        *("SingleStream", "MultiStream", "Server", "Offline"),
    )


def test_mixtral_has_new_references_and_the_old_upper_bound():
    """v5.0's checker: lower 0.9 x 144.84, upper 1.1 x 145.9."""
    for of in ("v5.0", "v5.1", "v6.0"):
        found = {each.score: (each.lower, each.upper) for each in round_named(of).rules("mixtral-8x7b").targets}
        assert found["ROUGE1"] == (pytest.approx(45.142911, rel=1e-9), None)
        assert found["gsm8k_accuracy"] == (pytest.approx(72.9234, rel=1e-9), None)
        assert found["TOKENS_PER_SAMPLE"] == (pytest.approx(130.356, rel=1e-9), pytest.approx(160.49, rel=1e-9))


def test_llama31_has_upper_and_lower_bounds_of_its_length():
    targets = {each.score: each for each in round_named("v5.1").rules("llama3_1-8b").targets}
    assert list(targets) == ["ROUGE1", "ROUGE2", "ROUGEL", "ROUGELSUM", "GEN_LEN"]
    assert targets["ROUGELSUM"].lower == pytest.approx(35.43507, rel=1e-9)
    assert targets["GEN_LEN"].lower == pytest.approx(7350879.6, rel=1e-9)
    assert targets["GEN_LEN"].upper == pytest.approx(8984408.4, rel=1e-9)


def test_numbers_that_only_later_rounds_have():
    wan = round_named("v6.0").rules("wan-2.2-t2v-a14b")
    assert official_limits(wan, SINGLE_STREAM).min_query_count == 50
    assert round_named("v6.1").rules("e2e-rag-qna").min_duration_ms == 0
    assert round_named("v6.0").rules("pointpainting").percentiles == {"SingleStream": 0.999}
    gpt = round_named("v6.0").rules("gpt-oss-120b")
    assert (gpt.accuracy_samples_in("Offline"), gpt.samples) == (4395, 6396)
    assert [(each.score, each.upper) for each in gpt.upper_limits] == [("TOKENS_PER_SAMPLE", 10998.9)]
    qwen = round_named("v6.1").rules("qwen3-vl-235b-a22b")
    assert (qwen.accuracy_samples_in("Interactive"), qwen.accuracy_samples_in("Offline")) == (8000, 48_289)
    (interactive,), (usual,) = qwen.targets_in("Interactive"), qwen.targets
    assert interactive.lower == pytest.approx(0.779922) and usual.lower == pytest.approx(0.782397)
    assert official_limits(qwen, INTERACTIVE).server_latency_ms == 1500
    assert official_limits(qwen, SERVER).server_latency_ms == 12_000
    edge = round_named("v5.1").rules("llama3_1-8b-edge")
    stream = edge.adapt(SINGLE_STREAM)
    assert (stream.result_key, stream.has_estimate, SINGLE_STREAM.has_estimate) == (
        *("result_90.00_percentile_latency_ns", False, True),
    )
    assert edge.adapt(OFFLINE) is OFFLINE
    assert round_named("v6.0").rules("pointpainting").adapt(SINGLE_STREAM).percentile == 0.999
    assert edge.result_keys == {"SingleStream": "result_90.00_percentile_latency_ns"}
    assert not round_named("v6.1").rules("qwen3.6-27b").has_loadgen


@pytest.mark.parametrize(
    ("of", "name", "variant", "model"),
    [
        ("v4.1", "resnet50", "99", "resnet50"),
        ("v5.1", "resnet50", "99", "resnet"),
        ("v5.1", "llama3_1-8b", "99", "llama3.1-8b"),
        ("v6.0", "llama2-70b", "99.9", "llama2-70b-99.9"),
        ("v6.1", "llama2-70b", "99.9", "llama2-70b-99.9"),
        ("v6.1", "llama2-70b", "", "llama2-70b-99.9"),
        ("v6.0", "bert", "99", "bert-99"),
        ("v5.1", "mixtral-8x7b", "99", "mixtral-8x7b"),
    ],
)
def test_models_have_the_folder_names_of_the_round(of, name, variant, model):
    assert round_named(of).rules(name).model_of(variant) == model


@pytest.mark.parametrize("name", LATER)
def test_test05_is_gone_and_the_tree_is_the_rounds(name):
    found = round_named(name)
    assert all("TEST05" not in rules.compliance for rules in found.workloads.values())
    assert "mlperf.conf" not in found.files.measurements
    assert found.layout.measurements == ("results/<place>" if name >= "v6" else "measurements/<place>")
    assert found.compliance.test06_dtype == "int32"
    assert found.compliance.are_test01_bounds_inclusive is (name != "v5.0")
    assert found.checks.result_validity is (name < "v6")
    assert found.early_stopping.decides is (name >= "v6")


def test_what_v41_says_of_its_tree():
    found = round_named("v4.1")
    assert found.files.measurements == ("mlperf.conf", "user.conf", "README.md")
    assert (found.compliance.test06_dtype, found.compliance.are_test01_bounds_inclusive) == ("int64", False)
    assert found.checks.equal_issue_from == "conf"
    assert found.units.tokens == ()  # as published, although tokens are counted


def test_every_workload_of_every_round_has_targets_and_scenarios():
    for name in ALL:
        for rules in round_named(name).workloads.values():
            assert rules.targets or rules.upper_limits
            assert rules.scenarios == official_scenarios(rules.name, name)
            for scenario in (SERVER, INTERACTIVE, OFFLINE):
                if scenario.name not in rules.scenarios or rules.tokens is not Tokens.MEASURED:
                    continue
                limits = official_limits(rules, scenario)
                is_limited = scenario.sends_rate and rules.name != "whisper"
                assert bool(limits.ttft_ms and limits.tpot_ms) is is_limited, (name, rules.name, scenario.name)


@pytest.mark.parametrize("name", ALL)
def test_every_value_of_a_round_has_its_type(name):
    check_types(round_named(name))
    for rules in round_named(name).workloads.values():
        check_types(rules)


def test_a_workload_of_other_rounds_is_refused_with_their_names():
    with pytest.raises(UsageError, match=r"^v6.0 has no rules for workload 'gptj'") as caught:
        round_named("v6.0").rules("gptj")
    assert caught.value.hint == "It is in v4.1, v5.0: give --round."
    assert list(rounds_with("resnet50", category="datacenter")) == ["v4.1", "v5.0"]
    assert list(rounds_with("llama2-70b", scenario="Interactive")) == ["v5.1", "v6.0", "v6.1"]
    with pytest.raises(UsageError, match=r"resnet50 is not a workload of datacenter systems in v5\.1") as caught:
        EntryDemand(category=Category.DATACENTER).settle("resnet50", round_named("v5.1").rules("resnet50"))
    assert caught.value.hint == "It is of: edge. In v4.1, v5.0 it is."


def test_an_unknown_round_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown round 'v7'") as caught:
        round_named("v7")
    assert caught.value.hint == "Rounds are v4.1, v5.0, v5.1, v6.0, v6.1."


def test_a_workload_that_the_default_round_lacks_has_the_first_round_with_it():
    assert usual_round(SomeWorkload("llama3_1-8b")).name == "v5.1"
    assert usual_round(SomeWorkload("bert")).name == "v4.1"
    check_rules_name("llama3_1-8b")
    with pytest.raises(UsageError, match="no rules for workload 'llama4'"):
        check_rules_name("llama4")


@pytest.fixture
def own_round(tmp_path, monkeypatch):
    """Write a round of the user's own, v5.1 with changes, and return its name."""
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    (tmp_path / "rounds").mkdir()
    text = (Path(__file__).parents[2] / "mlbench/rules/rounds/v5_1.toml").read_text()

    def written(*changes, name="v9.9"):
        found = text
        for old, new in (("v5.1", name), *changes):
            assert old in found
            found = found.replace(old, new)
        (tmp_path / "rounds" / f"{name.replace('.', '_')}.toml").write_text(found)
        return name

    return written


def test_a_file_is_a_round(own_round):
    name = own_round(("interactive_ttft_ms = 450", "interactive_ttft_ms = 300"), ("1780908523862526354", "12345"))
    assert known_rounds() == (*ALL, name)
    found = round_named(name)
    assert official_limits(found.rules("llama2-70b"), INTERACTIVE).ttft_ms == 300
    assert recognise_round({"effective_qsl_rng_seed": 12345}) == name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("samples = 24_576", 'samples = "many"'), "samples is 'many', not a whole number"),
        (("min_duration_ms = 600_000", ""), "it has no 'min_duration_ms'"),
        (("ttft_ms = 2000", "ttft_ms = -1"), "ttft_ms is -1"),
        (("deadline = 2025-08-01", "deadline = 1"), "deadline is 1, not a date"),
        (("equal_issue = true", 'equal_issue = "no"'), "equal_issue is wrong: it: Input should be a valid boolean"),
        (("accuracy_log = 720381539243781796", 'accuracy_log = "x"'), "accuracy_log is wrong: it: Input should be"),
        (('variants.99 = ["datacenter"]', 'variants.99 = ["sky"]'), "'sky' is not a valid Category"),
        (('scenarios.edge = ["Offline"]', "scenarios.edge = 3"), "is not a round"),
        (("[checks]", "[checks]\nmood = 1"), "mood"),
        (("percentile = 0.90", "precentile = 0.90"), "ScenarioRules has no 'precentile'"),
        (("[[workloads.resnet50.targets]]", "[[workloads.resnet50.targets]]\nnote = 1"), "TargetRow has no 'note'"),
        (('score = "acc"', 'scores = "acc"'), "it has no 'score'"),
        (('round = "v', 'round = "w'), "the file's name says"),
        (("confidence = 0.99", "confidence = 0.9"), "early_stopping is not LoadGen's: confidence 0.99"),
        (("[checks]", '[checks]\nwrong_category = "explodes"'), "wrong_category is 'explodes', not refuses"),
    ],
)
def test_a_file_that_is_no_round_is_refused_in_one_line(own_round, change, problem):
    name = own_round(change)
    with pytest.raises(UsageError, match=re.escape(problem)) as caught:
        round_named(name)
    assert "\n" not in caught.value.message


def test_a_file_of_ones_own_does_not_replace_a_round(own_round, tmp_path):
    own_round()
    text = next((tmp_path / "rounds").iterdir()).read_text()
    (tmp_path / "rounds" / "v6_0.toml").write_text(text)
    assert round_named("v6.0").seeds.normal.qsl == SEEDS["v6.0"][0]
