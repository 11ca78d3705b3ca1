"""Command lines whose results are in a folder of the test, and the plugin whose backends go wrong."""

import json
from pathlib import Path

import pytest
from invoking import invoke

from mlbench.records.run_record import read

PLUGIN = Path(__file__).parents[1] / "data" / "faulty_plugin"
QUICK = {"load.stall_timeout_s": 3, "load.min_duration_ms": 100}


@pytest.fixture
def mlbench(tmp_path, monkeypatch):
    """Run a command line with its results in a folder of this test."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    return invoke


@pytest.fixture
def with_faulty(mlbench, monkeypatch):
    """Run a command line with the faulty plugin installed, which measures for a moment."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))

    def with_faulty(*arguments, **settings):
        given = [f"{key}={value}" for key, value in {**QUICK, **settings}.items()]
        return mlbench(*arguments, *(word for setting in given for word in ("--set", setting)))

    return with_faulty


@pytest.fixture
def faulty_run(with_faulty, tmp_path):
    """Run a backend of the faulty plugin, and return its record and what was printed."""

    def faulty_run(backend, scenario="SingleStream", exit_code=1, **settings):
        asked = ("--backend", backend, "--scenario", scenario, "--no-accuracy", "--json")
        done = with_faulty("run", "resnet50", *asked, **settings)
        assert exit_code is None or done.exit_code == exit_code, done.output
        (folder,) = (tmp_path / "results").iterdir()
        record = read(folder)
        assert json.loads(done.stdout)[0]["run_id"] == record.run_id == folder.name
        return record, done.stderr

    return faulty_run
