"""The required entries of later rounds, and which runs serve them."""

import json
import tomllib
from pathlib import Path

import pytest
from invoking import invoke, refusal

from mlbench.records.run_record import RunRecord
from mlbench.rules.official import round_named
from mlbench.rules.round_parts import Category
from mlbench.submission.planning import missing_runs, owed_tests, plan_entry, required_entries

RECORDS = Path(__file__).parents[1] / "data/records"
EITHER = {"Server", "Interactive"}


def entries(name, *categories, model=""):
    """Return the required entries of a round by scenario, of one model or all."""
    found = required_entries([*categories], round_named(name))
    return [each for each in found if model in ("", each.model)]


def test_of_server_and_interactive_one_is_enough():
    for name in ("v5.1", "v6.0"):
        found = {each.scenario: set(each.instead) for each in entries(name, Category.DATACENTER, model="llama2-70b-99")}
        assert found == {"Server": {"Interactive"}, "Interactive": {"Server"}, "Offline": set()}


def test_interactive_is_a_model_of_its_own_in_v5_0():
    found = entries("v5.0", Category.DATACENTER, model="llama2-70b-interactive-99")
    assert {(each.scenario, *each.instead) for each in found} == {("Server",), ("Offline",)}


@pytest.mark.parametrize("name", ["v5.0", "v5.1", "v6.0", "v6.1"])
def test_test05_is_gone(name):
    assert "TEST05" not in {test for each in entries(name, *Category) for test in each.tests}


def test_tests_and_folders_are_the_rounds():
    found = {each.model: tuple(each.tests) for each in entries("v6.1", *Category)}
    assert found["llama2-70b-99.9"] == ("TEST06",)
    assert found["gpt-oss-120b"] == ("TEST07", "TEST09")
    assert {"llama2-70b-99", "mixtral-8x7b", "retinanet", "qwen3.6-27b"}.isdisjoint(found)
    assert "resnet" in found


def test_a_system_of_both_categories_still_has_server_of_resnet_in_v5_1():
    both = {each.scenario for each in entries("v5.1", *Category, model="resnet")}
    assert both == {"SingleStream", "MultiStream", "Server", "Offline"}
    assert {each.scenario for each in entries("v5.1", Category.EDGE, model="resnet")} == both - {"Server"}
    assert entries("v5.1", Category.DATACENTER, model="resnet") == []


def run_of(scenario, **changes):
    """Return a run as one of the official setup is stored."""
    stored = RunRecord.model_validate_json((RECORDS / "resnet50-pytorch-Offline.json").read_text())
    verdict = stored.verdict.model_copy(update={"is_conformant": True})
    fields = {"profile": "full", "tier": "valid", "verdict": verdict, "workload": "llama2-70b", "scenario": scenario}
    return stored.model_copy(update={**fields, "run_id": scenario, "round": "v6.0", **changes})


def planned(*runs):
    machine = run_of("Offline").environment.machine
    return [plan_entry(each, runs, machine) for each in entries("v6.0", Category.DATACENTER, model="llama2-70b-99")]


def test_the_first_of_several_scenarios_is_missing_until_one_has_a_run():
    assert missing_runs(planned()) == [("llama2-70b", "Server"), ("llama2-70b", "Offline")]
    plan = planned(run_of("Interactive"))
    assert missing_runs(plan) == [("llama2-70b", "Offline")]
    assert owed_tests(plan) == [("llama2-70b", "Interactive", "TEST06"), ("llama2-70b", "Offline", "TEST06")]


def test_a_run_of_another_round_does_not_serve():
    (found,) = (each for each in planned(run_of("Offline", round="v5.1")) if each.required.scenario == "Offline")
    assert (found.run, found.obstacle) == (None, "of round v5.1")


def test_the_command_plans_a_round_and_writes_its_suite(tmp_path):
    suite = tmp_path / "missing.toml"
    words = ["submit", "plan", "--round", "v6.0", "--category", "datacenter", "--results", tmp_path, "-o", suite]
    done = invoke(*words, "--json")
    assert done.exit_code == 1
    rows = json.loads(done.stdout)["entries"]
    assert {tuple(row["tests"]) for row in rows if row["model"] == "llama2-70b-99"} == {("TEST06",)}
    runs = tomllib.loads(suite.read_text())["runs"]
    assert {run["round"] for run in runs} == {"v6.0"}
    assert {"rgat", "deepseek-r1"}.isdisjoint(run["workload"] for run in runs)  # mlbench has no such workload
    shown = invoke(*words).stdout
    assert "Server or Interactive" in shown
    assert "no workload of mlbench" in shown


def test_a_round_that_is_not_there_is_refused_in_one_line(tmp_path):
    assert "v9.8" in refusal(invoke("submit", "plan", "--round", "v9.8", "--results", tmp_path))
