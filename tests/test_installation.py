"""What the README's commands install, and that CI runs them."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "constraints.txt").read_text()
ISOLATED = ("unshare", "--map-root-user", "--net")
try:
    CAN_LEAVE_THE_NETWORK = subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
except FileNotFoundError:
    CAN_LEAVE_THE_NETWORK = False


def requirements(*extras):
    """Return what the project and some of its extras ask for, with the extras that these name in turn."""
    lines = PROJECT["dependencies"] + [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    found = [Requirement(line) for line in lines]
    nested = {extra for each in found if each.name == PROJECT["name"] for extra in each.extras} - set(extras)
    return (
        requirements(*extras, *sorted(nested)) if nested else [each for each in found if each.name != PROJECT["name"]]
    )


def locked(name):
    """Return the versions that the lock has of a package: one, or one for each range of Pythons."""
    return re.findall(rf"^{re.escape(name)}==([^ ;\n]+)", LOCK, flags=re.MULTILINE)


@pytest.mark.parametrize("required", requirements("dev", "docs"), ids=str)
def test_the_lock_has_a_version_of_each_dependency_within_its_bounds(required):
    versions = locked(required.name.lower())
    assert versions
    assert all(required.specifier.contains(version) for version in versions), versions


def test_the_lock_says_what_and_not_from_where():
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.match(r"[\w.-]+==[\w.]+( ; .*)?$", line)] == []


def test_ci_runs_the_readmes_second_command_and_then_the_tests_that_it_leaves_out():
    (command,) = re.findall(r"^\$ (.* -s tests)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    script = (ROOT / ".ci/run").read_text().splitlines()
    lines = [line for line in script if not line.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', command, "python3 -m nox -s thorough"]


@pytest.fixture(scope="module")
def wheel():
    """The paths that a wheel has."""
    return {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}


def test_a_wheel_has_each_mini_profile_and_no_recipe(wheel):
    folders = [folder.name for folder in (ROOT / "workloads").glob("mlbench_*") if (folder / "mini").is_dir()]
    assert len(folders) == 10  # the nine of v4.1, and Llama 3.1 8B
    assert {f"{folder}/mini/mini.toml" for folder in folders} <= wheel
    assert [path for path in wheel if path.endswith("recipe.py")] == []


@pytest.mark.thorough("command line")
@pytest.mark.skipif(not CAN_LEAVE_THE_NETWORK, reason="no user namespaces here")
def test_without_a_network_it_is_installed_from_a_folder_of_wheels_and_measures(tmp_path):
    """`unshare -n` leaves a process no interface that is up. Dependencies are those of this environment."""
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "wheelhouse"))
    offline = ["--no-index", f"--find-links={Path(path).parent}", "--no-deps", f"--target={tmp_path / 'site'}"]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *offline, "mlbench-inference[cpu]"]
    run = "run resnet50 --backend null --scenario Offline --no-accuracy --set load.min_duration_ms=100".split()
    variables = {"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    place = [sys.executable, "-c", "import mlbench; print(mlbench.__path__[0])"]
    for command in (pip, [sys.executable, "-m", "mlbench", *run], place):
        isolated = [*ISOLATED, *command]
        done = subprocess.run(isolated, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: so short a test is INVALID
    assert done.stdout.strip() == str(tmp_path / "site/mlbench")
    (record,) = tmp_path.glob("results/*/record.json")
    assert json.loads(record.read_text())["status"] == "completed"


@pytest.mark.parametrize("file", sorted((ROOT / "examples/docker").glob("*.Dockerfile")), ids=lambda file: file.name)
def test_an_image_has_the_tested_versions_and_extras_that_go_together(file):
    text = file.read_text().replace("\\\n", "")
    (line,) = re.findall(r"^RUN pip install (.*)$", text, flags=re.MULTILINE)
    assert "--constraint /opt/mlbench/constraints.txt" in line
    (extras,) = re.findall(r"'/opt/mlbench\[([\w,-]+)\]'", line)
    names = set(extras.split(","))
    assert names <= set(PROJECT["optional-dependencies"])
    assert len(names & {"cpu", "onnxruntime-gpu"}) == 1
    assert {name for name in re.findall(r"MLBENCH_\w+", text)} == {
        "MLBENCH_RESULTS",
        "MLBENCH_CACHE",
        "MLBENCH_DATA",
        "MLBENCH_SETTINGS",
    }


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", text, flags=re.MULTILINE) == [PROJECT["version"]]
