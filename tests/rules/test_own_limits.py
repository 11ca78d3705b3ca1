"""Limits of a user's own: stricter than the rules', and of what is judged there."""

import pytest

from mlbench import UsageError
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.workload import Profile
from mlbench.loadgen import scenarios
from mlbench.rules.early_stopping import misses_allowed, queries_needed
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import Tier, latency_limits, run_length, with_own_limits
from tests.rules.conftest import SomeWorkload


def limits(rules, scenario=scenarios.SERVER, **load):
    found = latency_limits(official_rules(rules), SomeWorkload(rules), scenario, Profile.FULL)
    return with_own_limits(found, LoadSettings(**load))


def test_without_one_the_rules_hold():
    assert limits("resnet50").server_latency_ms == 15
    found = limits("llama2-70b")
    assert (found.ttft_ms, found.tpot_ms) == (2000, 200)


def test_a_stricter_one_takes_the_place_of_the_rules():
    assert limits("resnet50", latency_limit_ms=2.5).server_latency_ms == 2.5
    found = limits("llama2-70b", ttft_limit_ms=1000.0)
    assert (found.ttft_ms, found.tpot_ms) == (1000, 200)


@pytest.mark.parametrize(
    ("rules", "load", "problem", "hint"),
    [
        ("resnet50", {"latency_limit_ms": 20.0}, "is 20, larger than the limit of the rules", "It is 15 at most."),
        ("resnet50", {"ttft_limit_ms": 1.0}, "is not judged", "Judged is load.latency_limit_ms (15)."),
        (
            *("llama2-70b", {"latency_limit_ms": 1.0}, "is not judged"),
            "Judged is load.ttft_limit_ms (2000) and load.tpot_limit_ms (200).",
        ),
    ],
)
def test_a_looser_one_and_one_of_what_is_not_judged_are_refused(rules, load, problem, hint):
    with pytest.raises(UsageError, match=problem) as caught:
        limits(rules, **load)
    assert caught.value.hint == hint


def test_where_no_latency_is_judged_there_is_none_to_limit():
    with pytest.raises(UsageError, match="that is not judged") as caught:
        limits("resnet50", scenarios.OFFLINE, latency_limit_ms=1.0)
    assert caught.value.hint == "No latency is judged in this scenario."


def test_the_length_of_a_run_is_the_tiers():
    assert run_length(official_rules("resnet50"), scenarios.SERVER, Tier.SMOKE) == (2000, 459)
    assert run_length(official_rules("resnet50"), scenarios.SERVER, Tier.VALID) == (600_000, 459)


@pytest.mark.parametrize(("queries", "allowed"), [(458, -1), (459, 0), (661, 0), (662, 1), (838, 2), (12571, 100)])
def test_misses_allowed_is_the_inverse_of_queries_needed(queries, allowed):
    """Numbers: the rules' test vectors for h(t), where queries are h(t) + t."""
    assert misses_allowed(queries, 0.99) == allowed
    if allowed >= 0:
        assert queries_needed(allowed, 0.99) <= queries < queries_needed(allowed + 1, 0.99)
