"""Runs to judge: LoadGen's own logs of 32 samples and one second, and what else a verdict looks at."""

import dataclasses
from pathlib import Path

import pytest

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.workload import Profile, Weights, Workload
from mlbench.loadgen import scenarios
from mlbench.loadgen.logs import read_detail
from mlbench.rules.facts import RunFacts
from mlbench.rules.official import default_round, official_rules
from mlbench.rules.own import rules_of
from mlbench.rules.tiers import Tier, limits_of

LOGS = Path(__file__).parents[1] / "data" / "loadgen"


class SomeWorkload(Workload):
    """Only its names matter to the rules."""

    name = title = "some"

    def __init__(self, rules, mini_server_latency_ms=None):
        self.rules, self.mini_server_latency_ms = rules, mini_server_latency_ms

    def dataset(self, variant):
        raise AssertionError

    model = metric = dataset


class SomeSamples(Dataset):
    """Only its size matters to the rules."""

    fingerprint = ""

    def __init__(self, count, performance_count):
        self.count, self.performance_count = count, performance_count

    def load(self, indices):
        raise AssertionError

    unload = sample = load


@pytest.fixture
def limits_for():
    """Return the limits of a workload by its rules' name."""

    def limits(rules, scenario="OFFLINE", tier=Tier.SMOKE, profile=Profile.MINI, *, size=(32, 32), mini_ms=None):
        workload, dataset = SomeWorkload(rules, mini_ms), SomeSamples(*size)
        found = getattr(scenarios, scenario) if isinstance(scenario, str) else scenario
        rules = rules_of(workload, default_round())
        return limits_of(rules, workload, dataset, found, tier=tier, profile=profile)

    return limits


@pytest.fixture
def facts_of(limits_for):
    """Return the facts of one of the logs, under limits that fit it, with changes to facts, limits and log."""

    def facts(log, scenario, rules="resnet50", *, limits=None, detail=None, **changes):
        read = read_detail(LOGS / f"{log}.detail.txt")
        short = {"min_duration_ms": 1000, "server_latency_ms": 100 if scenario == "SERVER" else None}
        in_force = dataclasses.replace(limits_for(rules, scenario), **short | (limits or {}))
        known = {
            "workload": rules,
            "rules": official_rules(rules),
            "scenario": getattr(scenarios, scenario),
            "tier": Tier.SMOKE,
            "profile": Profile.MINI,
            "weights": Weights.TRAINED,
            "limits": in_force,
            "detail": {**read.values, **(detail or {})},
            "loadgen_errors": read.errors,
        }
        return RunFacts(**known | changes)

    return facts
