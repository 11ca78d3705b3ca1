"""A workload of one's own has its own rules, and never those of the nine by accident."""

import dataclasses

import pytest

from mlbench.contracts.metric import Target
from mlbench.contracts.rules import Rules, Tokens
from mlbench.contracts.workload import Profile
from mlbench.rules.official import default_round
from mlbench.rules.own import rules_of
from mlbench.rules.round_files import scenarios_of
from mlbench.rules.tiers import Tier
from mlbench.rules.verdict import judge

OWN = Rules(
    scenarios=("SingleStream", "Server", "Offline"),
    targets=(Target.at_most("WER", 7.5, reference=7.45),),
    server_latency_ms=250,
    min_duration_ms=30_000,
    min_query_count={"SingleStream": 500, "Server": 100},
)


class Speech:
    name, rules = "speech", OWN


@pytest.mark.parametrize(
    ("tier", "scenario", "limits"),
    [
        (Tier.SMOKE, "SINGLE_STREAM", (2000, 64, None)),
        (Tier.DEV, "SERVER", (30_000, 459, 250)),  # the tier's minute would be longer than a valid run
        (Tier.VALID, "SINGLE_STREAM", (30_000, 500, None)),
        (Tier.VALID, "SERVER", (30_000, 459, 250)),  # with fewer LoadGen calls every run INVALID
        (Tier.VALID, "OFFLINE", (30_000, 1, None)),
    ],
)
def test_its_durations_counts_and_limits_hold(limits_for, tier, scenario, limits):
    found = limits_for(OWN, scenario, tier, Profile.FULL)
    assert (found.min_duration_ms, found.min_query_count, found.server_latency_ms) == limits


def test_a_list_names_the_scenarios_that_its_runs_are_judged_in():
    workloads = [type("One", (), {"name": "one", "rules": rules}) for rules in (*default_round().rows, OWN)]
    assert [scenarios_of(each) for each in workloads] == [
        rules_of(each, default_round()).scenarios for each in workloads
    ]
    assert scenarios_of(workloads[-1]) == ("SingleStream", "Server", "Offline")


def test_counts_that_it_does_not_fix_are_the_datasets(limits_for):
    found = limits_for(OWN, "OFFLINE", Tier.VALID, Profile.FULL, size=(900, 300))
    assert (found.performance_sample_count, found.offline_min_samples) == (300, 300)
    fixed = dataclasses.replace(OWN, performance_sample_count=64, offline_min_samples=5000)
    found = limits_for(fixed, "OFFLINE", Tier.VALID, Profile.FULL, size=(900, 300))
    assert (found.performance_sample_count, found.offline_min_samples) == (64, 5000)


def test_limits_of_tokens_replace_the_latency(limits_for):
    chat = Rules(scenarios=("Server",), targets=(), tokens=Tokens.MEASURED, ttft_ms=400, tpot_ms=40)
    found = limits_for(chat, "SERVER")
    assert (found.server_latency_ms, found.ttft_ms, found.tpot_ms, found.tokens) == (None, 400, 40, Tokens.MEASURED)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scenarios": ("Batch",)}, "'Batch' is not one of LoadGen's scenarios: SingleStream, MultiStream, Server, "),
        ({"scenarios": ()}, "scenarios is ()"),
        ({"scenarios": "Offline"}, "scenarios is 'Offline'"),
        ({"server_latency_ms": None}, "queries arrive at a rate: give server_latency_ms"),
        ({"server_latency_ms": 2.5}, "server_latency_ms is 2.5, not a positive whole number"),
        ({"min_query_count": {"Server": 0}}, "min_query_count['Server'] is 0"),
        ({"min_query_count": {"Sever": 9}}, "'Sever' is not one of LoadGen's scenarios"),
        ({"tokens": Tokens.MEASURED}, "give ttft_ms and tpot_ms"),
        ({"tokens": Tokens.INFERRED}, "tokens_per_sample does not say how many"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(changes, said):
    with pytest.raises(ValueError, match="Rules: ") as found:
        dataclasses.replace(OWN, **changes)
    assert said in str(found.value)


@pytest.fixture
def own_facts(facts_of):
    """Return the facts of an Offline run under rules of its own, with changes."""

    def facts(**changes):
        official = facts_of("offline", "OFFLINE")
        return dataclasses.replace(
            official, workload="speech", rules=rules_of(Speech(), default_round()), targets=OWN.targets, **changes
        )

    return facts


def test_a_verdict_names_the_workloads_rules_and_judges_an_upper_bound(own_facts):
    found = {each.rule: each for each in judge(own_facts(scores={"WER": 9.0})).results}
    assert (found["accuracy.WER"].passed, found["accuracy.WER"].limit) == (False, 7.5)
    assert found["accuracy.WER"].source == found["min_duration"].source == "rules of the workload speech"
    assert "LoadGen" in found["loadgen_result"].source


def test_rules_of_ones_own_are_never_rule_conformant(own_facts):
    facts = own_facts(scores={"WER": 7.0}, tier=Tier.VALID, profile=Profile.FULL)
    for name in ("speech", "bert"):
        named = dataclasses.replace(facts, workload=name, rules=dataclasses.replace(facts.rules, name=name))
        assert not judge(named).is_official_setup


def test_only_the_scenarios_that_it_names_are_defined():
    assert rules_of(Speech(), default_round()).scenarios == ("SingleStream", "Server", "Offline")
