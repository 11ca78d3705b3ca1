"""Each install line that the project prints or documents names this distribution, and extras that it has."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import mlbench
from mlbench.system.installed import find_installed

ROOT = Path(__file__).parents[1]
KINDS = {".py", ".md", ".toml", ".template", ".j2", ".html", ".js"}
FOLDERS = ("mlbench", "plugins", "workloads", "examples", "docs", "results")
FILES = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")) if file.suffix in KINDS]
FILES += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml", "noxfile.py")]
FILLED_IN = re.compile(r"\{\w+\}")
"""An extra that the code fills in; `test_the_onnxruntime_backend_fills_in_extras_that_exist` knows them."""


def requirements(text: str) -> set[str]:
    """Return what a text asks for of ours: a name with extras anywhere, or any name of ours after ``pip install``."""
    found = set(re.findall(r"(?<![\w/.-])mlbench[\w-]*\[[^\]\s]*\]", text))
    for line in re.findall(r"pip3? install ([^\n]*)", text):
        found |= set(re.findall(r"(?<![\w/.'-])'?(mlbench[\w-]*)(?![\w\[/-])", line))
    return found


def distribution() -> metadata.Distribution:
    """Return the distribution that brings the package that runs here, as pip and uv know it."""
    (name,) = {
        each.name
        for each in find_installed("mlbench")
        if any(entry.value == "mlbench.loadgen.scenarios" for entry in each.entry_points)
    }
    return metadata.distribution(name)


@pytest.mark.parametrize("file", [file for file in FILES if requirements(file.read_text())], ids=lambda file: file.name)
def test_an_install_line_names_this_distribution_and_extras_that_it_has(file):
    ours = distribution()
    for text in requirements(file.read_text()):
        required = Requirement(FILLED_IN.sub("cpu", text))
        assert required.name == ours.metadata["Name"], text
        assert required.extras <= set(ours.metadata.get_all("Provides-Extra")), text


def test_install_lines_are_found_where_they_are():
    assert {file.name for file in FILES if requirements(file.read_text())} >= {"meter.py", "rendering.py", "reports.md"}
    assert requirements("run: pip install mlbench\nthen `pip install -U 'mlbench[cpu]'`") == {"mlbench", "mlbench[cpu]"}
    assert requirements("pip install -e ./mlbench_my_npu") == set()


def test_the_onnxruntime_backend_fills_in_extras_that_exist():
    from mlbench_onnxruntime.backend import EXTRAS

    assert set(EXTRAS) <= set(distribution().metadata.get_all("Provides-Extra"))


def test_the_version_is_that_of_the_metadata():
    assert distribution().version == mlbench.__version__


@pytest.mark.skipif(not any(metadata.distributions(name="pip")), reason="pip is not installed in this environment")
def test_pip_takes_the_printed_name_for_what_is_installed_and_asks_no_index():
    extras = ",".join(sorted(distribution().metadata.get_all("Provides-Extra")))
    line = ["install", "--dry-run", "--no-deps", "--no-index", f"mlbench-inference[{extras}]"]
    done = subprocess.run([sys.executable, "-m", "pip", *line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Requirement already satisfied: mlbench-inference[" in done.stdout
