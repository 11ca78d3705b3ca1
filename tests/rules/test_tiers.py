"""What each tier and profile asks of a run."""

import pytest

from mlbench import Rules, Scenario
from mlbench.contracts.workload import Profile
from mlbench.rules.tiers import Tier


@pytest.mark.parametrize(("tier", "duration_ms"), [(Tier.SMOKE, 2000), (Tier.DEV, 60_000), (Tier.VALID, 600_000)])
def test_tiers_last_seconds_a_minute_and_ten_minutes(limits_for, tier, duration_ms):
    assert limits_for("resnet50", tier=tier).min_duration_ms == duration_ms


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize(("scenario", "least"), [("SINGLE_STREAM", 64), ("MULTI_STREAM", 662), ("SERVER", 459)])
def test_no_tier_sends_fewer_queries_than_early_stopping_needs(limits_for, tier, scenario, least):
    assert limits_for("resnet50", scenario, tier).min_query_count >= least


def test_offline_sends_the_performance_set_once_and_the_official_number_when_valid(limits_for):
    size = (500, 300)
    assert limits_for("resnet50", tier=Tier.SMOKE, size=size).offline_min_samples == 300
    assert limits_for("resnet50", tier=Tier.DEV, size=size).offline_min_samples == 300
    assert limits_for("resnet50", tier=Tier.VALID, size=size).offline_min_samples == 24576
    assert limits_for("dlrm-v2", profile=Profile.FULL, size=(330_067, 330_067)).offline_min_samples == 24576


def test_only_mini_may_load_fewer_samples_than_the_rules_ask(limits_for):
    assert limits_for("resnet50", size=(500, 500)).performance_sample_count == 500
    full = limits_for("resnet50", profile=Profile.FULL, size=(500, 500))
    assert full.performance_sample_count == 1024


def test_only_mini_may_have_a_server_limit_of_its_own(limits_for):
    assert limits_for("resnet50", "SERVER").server_latency_ms == 15
    assert limits_for("resnet50", "SERVER", mini_ms=200).server_latency_ms == 200
    assert limits_for("resnet50", "SERVER", profile=Profile.FULL, mini_ms=200).server_latency_ms == 15


def test_latency_limits_hold_in_server_alone(limits_for):
    offline, server = limits_for("llama2-70b", "OFFLINE"), limits_for("llama2-70b", "SERVER")
    assert (offline.server_latency_ms, offline.ttft_ms, offline.tpot_ms) == (None, None, None)
    assert (server.server_latency_ms, server.ttft_ms, server.tpot_ms) == (None, 2000, 200)
    assert limits_for("resnet50", "SINGLE_STREAM").server_latency_ms is None


def test_the_valid_tier_is_the_rules_and_nothing_else(limits_for):
    limits = limits_for("bert", "OFFLINE", Tier.VALID, Profile.FULL, size=(10_833, 10_833))
    assert limits.seeds.qsl == 3066443479025735752
    assert (limits.offline_min_samples, limits.performance_sample_count, limits.equal_issue) == (10_833, 10_833, False)


def test_every_tier_says_what_it_is_for():
    assert len({tier.reason for tier in Tier}) == len(Tier)


AT_A_RATE = Scenario(
    name="Drizzle",
    title="",
    loadgen="Server",
    result_key="result_completed_samples_per_sec",
    result_unit="samples/s",
    percentile=0.9,
    early_stopping=True,
)


def test_own_rules_want_as_many_queries_as_make_the_scenarios_percentile_believable(limits_for):
    """Rules, appendix Early Stopping: of 44 queries none is over the 90th percentile by chance once in 103 times."""
    rules = Rules(scenarios=("Server",), targets=(), server_latency_ms=10)
    assert 0.9**44 < 0.01 < 0.9**43
    assert limits_for(rules, AT_A_RATE).min_query_count == 44
    assert limits_for(rules, "SERVER").min_query_count == 459
    assert limits_for("bert", AT_A_RATE).min_query_count == 459
