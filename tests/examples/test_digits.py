"""A stranger's workload, installed from outside, and the tutorial that is made of it."""

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mlbench_digits"
PACKAGE = EXAMPLE / "mlbench_digits"
TUTORIAL = (ROOT / "docs" / "tutorial-workload.md").read_text()

needs = {name: importlib.util.find_spec(name) is not None for name in ("torch", "sklearn")}
needs_all = pytest.mark.skipif(not all(needs.values()), reason=f"not installed: {[n for n in needs if not needs[n]]}")


def run_digits(mlbench, *arguments):
    """Return the exit status and the one record of a short run."""
    done = mlbench("run", "digits", "--scenario", "SingleStream", "--json", *arguments)
    (record,) = json.loads(done.stdout)
    return done.returncode, record


@pytest.mark.thorough("examples")
@needs_all
def test_an_installed_workload_is_listed_with_the_scenarios_of_its_rules(mlbench):
    listed = json.loads(mlbench("list", "--json").stdout)
    workload = next(each for each in listed["workloads"] if each["name"] == "digits")
    assert workload["scenarios"] == ["SingleStream", "MultiStream", "Server", "Offline"]
    assert listed["broken"] == []


@needs_all
@pytest.mark.thorough("examples")
def test_the_workload_runs_and_reaches_what_the_recipe_measured(mlbench):
    status, record = run_digits(mlbench, "--backend", "pytorch")
    assert record["samples"]["dataset"] == 497
    assert record["accuracy"]["line"] == "acc=91.348%"  # 454 of 497, as the tutorial says
    assert record["verdict"]["is_valid"]
    assert status == 0


@needs_all
@pytest.mark.thorough("examples")
def test_a_backend_that_computes_nothing_misses_the_target_by_far(mlbench):
    quick = ("--set", "load.min_duration_ms=50")
    status, record = run_digits(mlbench, "--backend", "null", *quick)
    assert (status, record["verdict"]["is_accurate"]) == (1, False)
    assert record["accuracy"]["line"] == "acc=9.859%"  # 49 of the 497 are zeros


@needs_all
@pytest.mark.thorough("examples")
def test_random_weights_run_without_a_claim_of_accuracy(mlbench):
    status, record = run_digits(mlbench, "--backend", "pytorch", "--weights", "random")
    assert (status, record["accuracy"], record["verdict"]["is_accurate"]) == (0, None, None)


@pytest.mark.thorough("examples")
@needs_all
def test_a_profile_that_does_not_exist_is_refused_in_one_line(mlbench):
    done = mlbench("run", "digits", "--profile", "full", "--backend", "null", "--scenario", "Offline")
    assert (done.returncode, done.stderr) == (2, "Error: digits has no full profile. Use --profile mini.\n")


@needs_all
@pytest.mark.thorough("recipes")
def test_the_recipe_gives_the_shipped_score_again(with_the_plugin, tmp_path):
    command = [sys.executable, str(EXAMPLE / "recipe.py"), str(tmp_path)]
    subprocess.run(command, env=with_the_plugin, check=True, stdout=subprocess.DEVNULL)
    made, shipped = (tomllib.loads((folder / "mini.toml").read_text()) for folder in (tmp_path, PACKAGE / "mini"))
    one_sample = 100 / 497
    assert made["reference"]["acc"] == pytest.approx(shipped["reference"]["acc"], abs=2 * one_sample)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TUTORIAL, flags=re.DOTALL)


def sources():
    return {
        file.name: file.read_text() for file in (*EXAMPLE.glob("*.toml"), *EXAMPLE.glob("*.py"), *PACKAGE.glob("*.py"))
    }


@pytest.mark.parametrize("block", [*blocks("python"), *blocks("toml")], ids=lambda block: block.strip().splitlines()[0])
def test_every_piece_of_code_in_the_tutorial_is_a_piece_of_the_example(block):
    assert any(block.strip("\n") in source for source in sources().values())


def test_the_tutorial_shows_every_definition_of_the_example():
    shown = "".join(blocks("python"))
    for name, source in sources().items():
        if not name.endswith(".py"):
            continue
        for part in ast.parse(source).body:
            if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.Assign):
                assert ast.get_source_segment(source, part) in shown, name
