"""What the README's commands install, and that CI runs them."""

import re
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "constraints.txt").read_text()


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
    assert len(folders) == 9
    assert {f"{folder}/mini/mini.toml" for folder in folders} <= wheel
    assert [path for path in wheel if path.endswith("recipe.py")] == []
