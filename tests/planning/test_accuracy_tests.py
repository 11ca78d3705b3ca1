"""Which runs of a command take over an earlier run's accuracy test."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlbench.contracts.workload import Profile, Weights
from mlbench.planning.accuracy_tests import AccuracyTests
from mlbench.planning.requests import combinations
from mlbench.records.run_record import RunRecord
from mlbench.rules.entry_demand import Division, EntryDemand
from mlbench.rules.tiers import Tier

STORED_RUN = Path(__file__).parents[1] / "data/records/resnet50-pytorch-Offline.json"


@pytest.fixture
def record():
    """Return the record of a run that met its target by a test of its own."""
    record = RunRecord.model_validate_json(STORED_RUN.read_text())
    assert record.accuracy.is_met and not record.accuracy.tested_in
    return record


@pytest.fixture
def tests(request_of, record):
    """Return the tests of a command that has made one run, Offline."""
    tests = AccuracyTests()
    tests.add(request_of(), record)
    return tests


def test_the_first_run_of_an_engine_makes_the_test(request_of):
    assert AccuracyTests().with_earlier(request_of()).accuracy_of is None


@pytest.mark.parametrize(
    "changes",
    [{"scenario": "SingleStream"}, {"scenario": "Server"}, {"overrides": {"execution.batch": 4}}],
    ids=["a stream", "at a rate", "another batch"],
)
def test_another_scenario_of_the_engine_takes_it_over(tests, request_of, record, tmp_path, changes):
    assert tests.with_earlier(request_of(**changes)).accuracy_of == tmp_path / record.run_id


@pytest.mark.parametrize(
    "changes",
    [
        {"tier": Tier.DEV},
        {"tier": Tier.VALID},
        {"workload": "bert"},
        {"backend": "pytorch"},
        {"weights": Weights.RANDOM},
        {"tag": "after"},
        {"repeat": 2},
        {"overrides": {"backend.delay_ms": 1}},
        {"wants_accuracy": False},
        {"entry": EntryDemand(division=Division.OPEN)},
    ],
    ids=lambda changes: str(*changes.values()),
)
def test_a_longer_tier_another_engine_a_repeat_or_another_set_makes_its_own(tests, request_of, changes):
    assert tests.with_earlier(request_of(**changes)).accuracy_of is None


def test_another_profile_makes_its_own(tests, request_of):
    other = replace(request_of(), profile=Profile.FULL)
    assert tests.with_earlier(other).accuracy_of is None


@pytest.mark.parametrize("change", [{"is_met": False}, {"tested_in": "an-earlier-run"}])
def test_a_missed_target_and_a_test_at_second_hand_are_not_passed_on(request_of, record, change):
    tests = AccuracyTests()
    tests.add(request_of(), record.model_copy(update={"accuracy": record.accuracy.model_copy(update=change)}))
    assert tests.with_earlier(request_of(scenario="Server")).accuracy_of is None


def test_a_run_without_scores_is_not_passed_on(request_of, record):
    tests = AccuracyTests()
    tests.add(request_of(), record.model_copy(update={"accuracy": None}))
    assert tests.with_earlier(request_of(scenario="Server")).accuracy_of is None


def test_without_a_scenario_the_one_in_which_a_test_takes_least_is_first(plugins):
    names = [each.scenario for each in combinations(plugins, ["resnet50"], ["null"], [])]
    assert names == ["Offline", "SingleStream", "MultiStream", "Server"]


def test_scenarios_that_were_named_keep_their_order(plugins):
    named = ["Server", "Offline"]
    assert [each.scenario for each in combinations(plugins, ["resnet50"], ["null"], named)] == named


def stored(name):
    return RunRecord.model_validate_json(STORED_RUN.with_name(f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("mixtral-8x7b-onnxruntime-Offline", "Server"),
        ("llama2-70b-onnxruntime-Server", "Offline"),
        ("gptj-pytorch-Offline", "Server"),
    ],
)
def test_a_test_serves_whether_or_not_it_logged_first_tokens(request_of, tmp_path, name, other):
    tests, record = AccuracyTests(), stored(name)
    tests.add(request_of(workload=record.workload, scenario=record.scenario), record)
    taken = tests.with_earlier(request_of(workload=record.workload, scenario=other)).accuracy_of
    assert taken == tmp_path / record.run_id
