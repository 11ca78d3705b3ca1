"""A workload whose own rules want a second only, so that a run of tier valid can be audited in a test."""

import json
import os
import subprocess
import sys

import pytest

PLUGIN = """
from mlbench import Rules, Target, hookimpl
from mlbench_resnet50.workload import ResNet50


class Brief(ResNet50):
    __module__ = ResNet50.__module__  # beside which the profiles are
    name = "brief"
    title = "ResNet-50 by rules that ask for a second"
    rules = Rules(
        scenarios=("SingleStream", "Offline"),
        targets=(Target.at_least("acc", 0.5, reference=76.46, name="99"),),
        min_duration_ms=1000,
        min_query_count={"SingleStream": 64},
    )


@hookimpl
def mlbench_workloads():
    return [Brief()]
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Return an environment in which the workload is installed, and runs have a folder."""
    folder = tmp_path_factory.mktemp("brief")
    (folder / "mlbench_brief.py").write_text(PLUGIN)
    info = folder / "mlbench_brief-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlbench-brief\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mlbench]\nbrief = mlbench_brief\n")
    own = {"MLBENCH_RESULTS": str(folder / "results"), "MLBENCH_CACHE": str(folder / "cache")}
    return {**os.environ, **own, "PYTHONPATH": str(folder)}


@pytest.fixture(scope="session")
def mlbench(installed):
    """Return a function that runs a command of mlbench where the workload is installed."""

    def run(*arguments):
        command = [sys.executable, "-c", "from mlbench.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, env=installed, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def audited(mlbench):
    """Return a run that can be audited: valid by its rules, with an accuracy test. Zeros are inaccurate labels."""
    done = mlbench("run", "brief", "--backend", "null", "--scenario", "SingleStream", "--tier", "valid", "--json")
    (record,) = json.loads(done.stdout)
    return record
