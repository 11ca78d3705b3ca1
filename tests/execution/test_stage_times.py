"""The time that each stage of a run took, by a clock that the test moves."""

import pytest

from mlbench.execution import stage_times
from mlbench.execution.stage_times import StageTimes


class Clock:
    now_ns = 5

    def monotonic_ns(self):
        return self.now_ns


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stage_times, "time", clock)
    return clock


def test_a_stage_lasts_until_the_next_begins_and_the_first_is_the_start(clock):
    stages = StageTimes()
    for stage, begins_ns in (("load", 15), ("compile", 40), ("performance", 100)):
        clock.now_ns = begins_ns
        stages.enter(stage)
    clock.now_ns = 1100
    assert list(stages.end().items()) == [("start", 10), ("load", 25), ("compile", 60), ("performance", 1000)]


def test_a_stage_that_is_entered_again_goes_on(clock):
    stages = StageTimes()
    for stage in ("performance", "statistics", "performance", "performance"):
        clock.now_ns += 10
        stages.enter(stage)
    clock.now_ns += 10
    assert stages.end() == {"start": 10, "performance": 30, "statistics": 10}


def test_a_run_that_failed_before_its_first_stage_has_its_time_in_the_start(clock):
    stages = StageTimes()
    clock.now_ns += 7
    assert stages.end() == {"start": 7}
    assert (stages.last, stages.names) == ("", set())


def test_only_stages_that_have_begun_are_named(clock):
    stages = StageTimes()
    stages.enter("load")
    assert (stages.last, stages.names) == ("load", {"load"})
