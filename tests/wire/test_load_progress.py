"""What has to happen before LoadGen ends a test, and how long that takes."""

from dataclasses import replace

import pytest

from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test, demand_of
from mlbench.wire.load_progress import Demand, LoadProgress, SampleCounts
from mlbench.wire.progress import ProgressMessage, Steps

LOAD = LoadSettings(min_duration_ms=60_000, min_query_count=100)
SEEDS = Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4)


def demand(scenario, mode=Mode.PERFORMANCE):
    return demand_of(Test(scenario=scenario, mode=mode, load=LOAD, reply=None, seeds=SEEDS), sample_count=497)


@pytest.mark.parametrize(
    ("scenario", "least_samples"),
    [(SINGLE_STREAM, 100), (SERVER, 100), (MULTI_STREAM, 800)],
    ids=["SingleStream", "Server", "MultiStream"],
)
def test_where_queries_follow_each_other_both_the_duration_and_the_queries_bind(scenario, least_samples):
    assert demand(scenario) == Demand(least_s=60, least_samples=least_samples)


def test_offline_ends_when_its_samples_are_answered_however_long_that_takes():
    assert demand(OFFLINE) == Demand(least_s=0, least_samples=100)


@pytest.mark.parametrize("scenario", [SINGLE_STREAM, OFFLINE])
def test_an_accuracy_test_ends_when_each_sample_of_the_dataset_was_answered(scenario):
    assert demand(scenario, Mode.ACCURACY) == Demand(least_s=0, least_samples=497)


def left_s(*, elapsed_s, issued, answered, least_s, least_samples):
    counts = SampleCounts(elapsed_s=elapsed_s, issued=issued, answered=answered)
    return LoadProgress(counts=counts, demand=Demand(least_s=least_s, least_samples=least_samples)).left_s


def test_a_slow_backend_is_bound_by_the_queries_long_after_the_duration_is_over():
    # 20 of 100 in 120 s: 80 more at one in 6 s
    assert left_s(elapsed_s=120, issued=21, answered=20, least_s=60, least_samples=100) == pytest.approx(480)


def test_a_fast_backend_is_bound_by_the_duration():
    assert left_s(elapsed_s=20, issued=5000, answered=5000, least_s=60, least_samples=100) == pytest.approx(40)


def test_samples_that_were_sent_beyond_the_least_are_waited_for():
    # Offline sent 3000, of which 1000 took 10 s
    assert left_s(elapsed_s=10, issued=3000, answered=1000, least_s=0, least_samples=100) == pytest.approx(20)


@pytest.mark.parametrize(("elapsed_s", "answered"), [(30, 0), (0, 20)], ids=["no answer yet", "no time has passed"])
def test_before_a_sample_was_timed_nothing_is_known(elapsed_s, answered):
    assert left_s(elapsed_s=elapsed_s, issued=100, answered=answered, least_s=60, least_samples=100) is None


def test_nothing_is_left_when_time_and_counts_are_over():
    assert left_s(elapsed_s=61, issued=200, answered=200, least_s=60, least_samples=100) == 0


def test_a_message_about_something_else_is_no_progress_of_a_test():
    counts = SampleCounts(elapsed_s=1.0, issued=2, answered=1)
    progress = LoadProgress(counts=counts, demand=Demand(least_s=0.0, least_samples=2))
    facts = {
        "counts": {"elapsed_s": 1.0, "issued": 2, "answered": 1},
        "demand": {"least_s": 0.0, "least_samples": 2},
    }
    assert ProgressMessage.of("accuracy", progress) == ProgressMessage(stage="accuracy", facts=facts)
    assert ProgressMessage(stage="accuracy", facts=facts).read(LoadProgress) == progress
    assert ProgressMessage(stage="accuracy", facts=facts).read(Steps) is None
    assert ProgressMessage(stage="compile").read(LoadProgress) is None
    odd = facts | {"counts": facts["counts"] | {"answered": "all"}}
    assert ProgressMessage(stage="accuracy", facts=odd).read(LoadProgress) is None
    assert replace(progress, counts=replace(counts, answered=2)).left_s == 0


def test_values_that_nest_too_deep_are_no_progress_and_no_error():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert ProgressMessage(stage="accuracy", facts={"counts": nested, "demand": {}}).read(LoadProgress) is None
