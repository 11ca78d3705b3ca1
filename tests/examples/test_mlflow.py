"""A stranger's plugin that posts runs to MLflow: a real MLflow with its store in a folder, read back through MLflow."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlbench_mlflow"


@pytest.fixture
def posted(tmp_path, monkeypatch):
    """Return a function that returns the runs in a store of this test."""
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: pip install mlflow-skinny")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")

    def posted():
        client = mlflow.MlflowClient(f"file:{tmp_path / 'mlruns'}")
        return client.search_runs([client.get_experiment_by_name("mlbench").experiment_id])

    return posted


def test_a_stored_run_is_a_run_of_mlflow(plugin, posted, store, a_run):
    run = a_run(tag="nightly")
    plugin.mlbench_run_stored(store(run))
    (found,) = posted()
    assert (found.info.run_name, found.info.status) == (run.run_id, "FINISHED")
    assert found.info.end_time - found.info.start_time == run.duration_ns // 1_000_000
    assert found.data.metrics == {"result": run.result.value, **run.accuracy.scores}
    assert (found.data.params["workload"], found.data.params["scenario"]) == ("resnet50", "Offline")
    assert found.data.params["execution.batch"] == str(run.settings["execution.batch"].value)
    assert (found.data.tags["mlbench.tag"], found.data.tags["mlbench.is_valid"]) == ("nightly", "True")


def test_a_failed_run_is_a_failed_one_without_numbers(plugin, posted, store, a_failure):
    plugin.mlbench_run_stored(store(a_failure))
    (found,) = posted()
    assert (found.info.status, found.data.metrics, found.data.tags["mlbench.is_valid"]) == ("FAILED", {}, "False")


def test_without_an_address_nothing_is_posted_and_nothing_connected(plugin, store, a_run, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a connection")

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    folder = store(a_run())
    plugin.mlbench_run_stored(folder)
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]


@pytest.mark.thorough("examples")
def test_runs_of_a_command_are_posted(posted, tmp_path, pip_install):
    pip_install(EXAMPLE, tmp_path / "installed")
    request = ["run", "resnet50", "--backend", "null", "--scenario", "SingleStream", "--no-accuracy", "--repeat", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "mlbench", *request, "--json", "--set", "load.min_duration_ms=50"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "MLBENCH_RESULTS": str(tmp_path / "results")},
        capture_output=True,
        text=True,
        check=False,
    )
    values = {record["run_id"]: record["result"]["value"] for record in json.loads(done.stdout)}
    assert {run.info.run_name: run.data.metrics["result"] for run in posted()} == values
    assert "did not take" not in done.stderr
