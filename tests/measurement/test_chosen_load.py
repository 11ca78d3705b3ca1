"""What a run sends where nobody said how much."""

import pytest

from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.pace import Pace
from mlbench.loadgen.scenarios import OFFLINE, SERVER
from mlbench.measurement import measure
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import official_limits

RULES = official_rules("resnet50")


def chosen(scenario, pace, **load):
    return measure._filled(LoadSettings(**load), official_limits(RULES, scenario), pace)


def pace_of(**changes):
    return Pace(**{"rate_per_s": 400.0, "latency_ns": 5_000_000, "fastest_ns": 4_000_000, **changes})


@pytest.mark.parametrize(("share", "rate_per_s"), [(0.5, 100), (0.25, 50), (1.0, 200), (2.0, 400)])
def test_server_sends_the_share_of_what_one_at_a_time_reaches(share, rate_per_s):
    """5 ms a sample: 200 a second, one at a time."""
    assert chosen(SERVER, pace_of(), server_load=share).target_qps == rate_per_s


def test_server_sends_the_share_of_the_rate_that_a_crowd_reaches_where_that_is_known():
    assert chosen(SERVER, pace_of(crowded_per_s=1000.0), server_load=0.3).target_qps == pytest.approx(300)


def test_a_rate_that_was_asked_for_stays():
    assert chosen(SERVER, pace_of(), server_load=0.1, target_qps=77.0).target_qps == 77
    assert chosen(OFFLINE, pace_of(), target_qps=77.0).target_qps == 77


def test_offline_expects_more_than_the_rate_that_was_seen():
    assert chosen(OFFLINE, pace_of(), server_load=0.1).target_qps == 1.5 * 400
