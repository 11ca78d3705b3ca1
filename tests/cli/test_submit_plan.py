"""``mlbench submit plan``."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlbench.cli import main
from mlbench.planning.suite import Suite

RECORDS = Path(__file__).parents[1] / "data/records"


def plan(*words, width="160"):
    return CliRunner(env={"COLUMNS": width}).invoke(main, ["submit", "plan", *map(str, words)])


@pytest.fixture
def results(tmp_path):
    """A results folder with one run, of the mini profile."""
    record = RECORDS / "resnet50-onnxruntime-Offline.json"
    folder = tmp_path / "results" / json.loads(record.read_text())["run_id"]
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(record.read_text())
    return folder.parent


def test_all_entries_stand_in_a_table_with_what_is_missing(results):
    done = plan("--results", results)
    assert done.exit_code == 1
    row = next(line for line in done.stdout.splitlines() if "resnet50" in line and "Offline" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        *("datacenter+edge", "resnet50", "Offline", "01 04 05", "851e profile mini")
    ]
    assert "datacenter: 0 of 26 entries have a run." in done.stdout
    assert "edge: 0 of 18 entries have a run." in done.stdout
    assert "25 runs missing: more than 4 h 10 min." in done.stdout


def test_a_category_alone_is_planned_for_and_fits_80_columns(results):
    done = plan("--results", results, "--category", "edge", width="80")
    assert "datacenter" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_suite_of_missing_runs_is_one_that_run_takes(results, tmp_path):
    file = tmp_path / "missing.toml"
    done = plan("--results", results, "--category", "edge", "--backend", "null", "-o", file)
    assert f"mlbench run --suite {file} makes these runs." in " ".join(done.stdout.split())
    suite = Suite.model_validate(tomllib.loads(file.read_text()))
    runs = {(*each.workload, *each.scenario, *each.backend) for each in suite.runs}
    assert len(runs) == 14
    assert ("bert", "SingleStream", "null") in runs
    assert {(each.profile, each.tier) for each in suite.runs} == {("full", "valid")}


def test_other_programs_read_it_as_json(results):
    done = plan("--results", results, "--json")
    facts = json.loads(done.stdout)
    assert sum(len(each["categories"]) for each in facts["entries"]) == 44
    assert len(facts["missing"]) == 25
    offline = next(each for each in facts["entries"] if (each["model"], each["scenario"]) == ("resnet50", "Offline"))
    assert (offline["run"], offline["obstacle"], offline["nearest"][-4:]) == (None, "profile mini", "851e")


def test_an_empty_results_folder_lacks_everything(tmp_path):
    assert "25 runs missing" in plan("--results", tmp_path / "none").stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["no-such-run"], "no-such-run"),
        (["--backend", "nobody"], "unknown backend 'nobody'"),
        (["--category", "cloud"], "'cloud' is not one of"),
        (["-o", "/no/such/folder/suite.toml"], "file cannot be written"),
    ],
)
def test_bad_input_is_one_line(results, words, problem):
    done = plan("--results", results, *words)
    assert done.exit_code == 2
    assert problem in done.stderr.splitlines()[-1]
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("division", "obstacles"),
    [
        ("network", {"Server": "INVALID", "Offline": "its samples did not travel over a network"}),
        ("closed", {"Server": "its samples travelled over a network", "Offline": "INVALID"}),
    ],
)
def test_each_division_is_served_by_its_own_runs_alone(results, division, obstacles):
    (local,) = results.glob("*/record.json")
    travelled = results / "travelled/record.json"
    travelled.parent.mkdir()
    travelled.write_text((RECORDS / "nodes/resnet50-onnxruntime-Server-network.json").read_text())
    for file in (local, travelled):
        found = json.loads(file.read_text()) | {"profile": "full", "tier": "valid"}
        verdict = found["verdict"] | {"is_valid": False}
        file.write_text(json.dumps(found | {"run_id": file.parent.name, "verdict": verdict}))
    words = ("--machine", "bench-1", "--category", "datacenter", "--division", division, "--json")
    entries = json.loads(plan("--results", results, *words).stdout)["entries"]
    assert {each["scenario"]: each["obstacle"] for each in entries if each["model"] == "resnet50"} == obstacles


def test_what_the_network_division_has_not_is_refused_in_a_line(results, tmp_path):
    done = plan("--results", results, "--division", "network", "--category", "edge")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "the network division is for datacenter systems." in done.stderr
    done = plan("--results", results, "--division", "network", "-o", tmp_path / "missing.toml")
    assert (done.exit_code, len(done.stderr.splitlines()), (tmp_path / "missing.toml").exists()) == (2, 1, False)
    assert "a suite cannot run on nodes" in done.stderr
