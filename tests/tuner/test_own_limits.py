"""Limits that a user asks for."""

import pytest

from mlbench import UsageError
from mlbench.tuner.own_limits import settings_of_limits


def test_a_limit_is_a_setting_in_milliseconds():
    found = settings_of_limits(["ttft=1s", "tpot=50ms", "latency=2.5ms"])
    assert found == {"load.ttft_limit_ms": 1000, "load.tpot_limit_ms": 50, "load.latency_limit_ms": 2.5}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ttft=1", "has no unit; units are us, ms, s"),
        ("ttft=1m", "has the unit 'm'"),
        ("ttft=0s", "is not above 0"),
        ("ttft=-1s", "is not a time"),
        ("ttft=nans", "is not a time"),
        ("ttft", "is not a time"),
        ("p99=1s", "is not one of latency, ttft, tpot"),
    ],
)
def test_what_is_no_limit_is_refused(text, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        settings_of_limits([text])
    assert caught.value.hint == "Give it like ttft=1s, tpot=50ms or latency=10ms."


def test_a_limit_given_twice_is_refused():
    with pytest.raises(UsageError, match="--limit ttft is given twice"):
        settings_of_limits(["ttft=1s", "ttft=2s"])
