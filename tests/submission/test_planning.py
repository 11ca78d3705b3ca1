"""The required entries of a system in the closed division, and which runs serve it."""

from pathlib import Path

import pytest
from whole_tree import DATACENTER, EDGE, TESTS, base

from mlbench.records.node_record import NetworkRecord
from mlbench.records.origin_record import EntryRecord
from mlbench.records.run_record import RunRecord
from mlbench.rules.round_parts import Category
from mlbench.submission.planning import (
    least_time_of_tests_s,
    missing_runs,
    owed_tests,
    plan_entry,
    required_entries,
)

RECORDS = Path(__file__).parents[1] / "data/records"
OWED = {Category.DATACENTER: DATACENTER, Category.EDGE: EDGE}
"""Written from the official description, not from mlbench's tables."""


@pytest.fixture(scope="module")
def stored():
    """A run of the mini profile in tier smoke, whose accuracy is that of the reference."""
    return RunRecord.model_validate_json((RECORDS / "resnet50-pytorch-Offline.json").read_text())


def official(stored, **changes):
    """Return a run as one of the official setup is stored, which no machine of a developer can make."""
    verdict = stored.verdict.model_copy(update={"is_conformant": True})
    return stored.model_copy(update={"profile": "full", "tier": "valid", "verdict": verdict, **changes})


def owed_entry(model="resnet50", scenario="Offline"):
    (found,) = (each for each in required_entries([*Category]) if (each.model, each.scenario) == (model, scenario))
    return found


@pytest.mark.parametrize("category", [*Category])
def test_a_category_owes_each_scenario_of_its_models_and_their_compliance_tests(category):
    entries = required_entries([category])
    assert {(each.model, each.scenario) for each in entries} == {
        (model, scenario) for model, scenarios in OWED[category].items() for scenario in scenarios
    }
    assert {(each.model, *each.tests) for each in entries} == {(model, *TESTS[base(model)]) for model in OWED[category]}


def test_both_categories_owe_44_entries_of_which_eight_are_the_same_result():
    entries = required_entries([*Category])
    assert sum(len(each.categories) for each in entries) == 44
    assert sum(len(each.categories) == 2 for each in entries) == 8


def test_an_official_run_of_this_machine_serves(stored):
    run = official(stored)
    entry = plan_entry(owed_entry(), [stored, run], run.environment.machine)
    assert (entry.run, entry.obstacle) == (run, "")


def test_the_newest_run_that_serves_is_taken_and_a_newer_one_that_does_not_is_passed_over(stored):
    first, second, third = (
        official(stored, run_id=name, created=stored.created.replace(year=year))
        for name, year in (("first", 2030), ("second", 2031), ("third", 2032))
    )
    invalid = third.model_copy(update={"verdict": third.verdict.model_copy(update={"is_valid": False})})
    entry = plan_entry(owed_entry(), [invalid, second, first], stored.environment.machine)
    assert entry.run == second


NETWORK = NetworkRecord(connections=1, is_encrypted=False, nodes=[])


def of_verdict(stored, **changes):
    return official(stored).model_copy(update={"verdict": stored.verdict.model_copy(update=changes)})


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        (lambda run: run.model_copy(update={"profile": "mini"}), "profile mini"),
        (lambda run: run.model_copy(update={"tier": "dev"}), "tier dev"),
        (lambda run: run.model_copy(update={"weights": "random"}), "weights random"),
        (lambda run: run.model_copy(update={"status": "failed"}), "failed: failed"),
        (lambda run: of_verdict(run, is_valid=False), "INVALID"),
        (lambda run: of_verdict(run, is_conformant=False), "not by the official rules"),
        (lambda run: run.model_copy(update={"accuracy": None}), "no accuracy test"),
        (lambda run: run.model_copy(update={"network": NETWORK}), "its samples travelled over a network"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_keeps_a_run_from_serving_is_said(stored, change, obstacle):
    run = change(official(stored))
    entry = plan_entry(owed_entry(), [run], stored.environment.machine)
    assert (entry.run, entry.nearest, entry.obstacle) == (None, run, obstacle)


OPEN = EntryRecord(model="resnet50", variant="99", category="", division="open")


def test_a_run_for_the_open_division_serves_no_closed_entry(stored):
    run = official(stored, entry=OPEN)
    plan = {each: plan_entry(owed_entry(), [run], stored.environment.machine, each) for each in ("closed", "open")}
    assert (plan["closed"].run, plan["closed"].obstacle) == (None, "made for the open division")
    assert (plan["open"].run, plan["open"].obstacle) == (run, "")


def test_an_open_entry_takes_a_run_below_the_accuracy(stored):
    targets = [each.model_copy(update={"is_met": False}) for each in stored.accuracy.targets]
    run = official(stored, entry=OPEN, accuracy=stored.accuracy.model_copy(update={"targets": targets}))
    assert plan_entry(owed_entry(), [run], stored.environment.machine, "open").run == run
    closed = official(stored, accuracy=run.accuracy)
    assert plan_entry(owed_entry(), [closed], stored.environment.machine).obstacle == "misses 99 in acc"


def test_a_run_of_another_machine_does_not_serve(stored):
    assert plan_entry(owed_entry(), [official(stored)], "another").obstacle == "made on another machine"


def test_of_several_runs_the_one_that_is_nearest_is_named(stored):
    near = official(stored, tier="dev")
    entry = plan_entry(owed_entry(), [near, stored], stored.environment.machine)
    assert (entry.nearest, entry.obstacle) == (near, "tier dev")


def test_a_run_that_meets_99_and_not_99_9_serves_one_of_the_two_entries():
    stored = RunRecord.model_validate_json((RECORDS / "bert-onnxruntime-Server.json").read_text())
    targets = [each.model_copy(update={"is_met": each.name == "99"}) for each in stored.accuracy.targets]
    assert {each.name for each in targets} == {"99", "99.9"}
    run = official(stored, accuracy=stored.accuracy.model_copy(update={"targets": targets}))
    plan = [plan_entry(owed_entry(f"bert-{of}", "Server"), [run], run.environment.machine) for of in ("99", "99.9")]
    assert [each.run for each in plan] == [run, None]
    assert plan[1].obstacle == "misses 99.9 in F1"
    assert missing_runs(plan) == [("bert", "Server")]


def test_one_run_and_one_test_serve_the_entries_of_both_accuracies():
    plan = [plan_entry(owed_entry(f"bert-{of}", "Server"), [], "here") for of in ("99", "99.9")]
    assert {each.obstacle for each in plan} == {"no run"}
    assert missing_runs(plan) == [("bert", "Server")]
    assert owed_tests(plan) == [("bert", "Server", "TEST01"), ("bert", "Server", "TEST05")]
    assert least_time_of_tests_s(plan) == 2 * 600


def test_a_test_of_tokens_has_a_number_of_samples_and_no_least_duration():
    plan = [plan_entry(owed_entry("llama2-70b-99", "Server"), [], "here")]
    assert owed_tests(plan) == [("llama2-70b", "Server", "TEST06")]
    assert least_time_of_tests_s(plan) == 0
