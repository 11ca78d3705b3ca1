"""The notebook and the CI job of the examples, run as their readers run them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "python"
NOTEBOOK = FOLDER / "two_backends.ipynb"
QUIET = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}


@pytest.mark.thorough("examples")
@pytest.mark.filterwarnings("default")  # of zmq and asyncio
def test_the_notebook_runs_from_top_to_bottom_and_its_runs_are_good(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    runs = [json.loads(file.read_text()) for file in (tmp_path / "results").glob("*/record.json")]
    assert sorted(run["backend"] for run in runs) == ["onnxruntime", "pytorch"]
    assert all(run["verdict"]["is_valid"] and run["verdict"]["is_accurate"] for run in runs)
    printed = [cell["outputs"][0]["text"] for cell in notebook.cells if cell["cell_type"] == "code" and cell["outputs"]]
    assert re.match(r"pytorch +\d+\.\d ms  acc 98\.99\nonnxruntime +\d+\.\d ms  acc 98\.99\n", printed[0])
    assert printed[1].startswith("resnet50 onnxruntime SingleStream fp32, latency: ")


def test_the_notebook_has_the_outputs_of_a_run():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [bool(cell["outputs"]) for cell in cells] == [False, True, True]


def guard(tmp_path, *arguments):
    command = [sys.executable, str(FOLDER / "guard.py"), *arguments]
    environment = {**QUIET, "MLBENCH_RESULTS": str(tmp_path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.thorough("examples")
def test_the_job_measures_and_fails_where_a_run_is_not_good(tmp_path):
    done = guard(tmp_path, "resnet50", "--backend", "null", "--repeat", "1")
    assert done.returncode == 1
    assert re.fullmatch(r"resnet50 null SingleStream 1: [\d,]+ ns, BAD\n", done.stdout)
    assert len(list(tmp_path.glob("*/record.json"))) == 1


def test_what_the_job_is_asked_for_wrongly_is_one_line(tmp_path):
    done = guard(tmp_path, "resnet50", "--backend", "nul")
    assert (done.returncode, done.stderr) == (2, "Error: unknown backend 'nul'. Did you mean 'null'?\n")


@pytest.fixture
def stored(a_run, tmp_path, monkeypatch):
    """Return a function that stores a run of a day with a latency, where the job looks for runs."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path))
    monkeypatch.syspath_prepend(FOLDER)

    def store(day, tag, latency_ns):
        result = {"value": latency_ns, "unit": "ns", "higher_is_better": False, "latency_ns": {}, "counts": {}}
        created, name = f"2026-11-{day:02}T00:00:00Z", f"202611{day:02}T000000Z-{latency_ns}"
        run = a_run(run_id=name, created=created, scenario="SingleStream", result=result, tag=tag)
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(run.text())
        return run

    return store


@pytest.mark.parametrize(("factor", "is_worse", "verdict"), [(1.0, False, "same"), (1.5, True, "slower")])
def test_the_job_says_whether_runs_got_worse_than_earlier_ones(stored, capsys, factor, is_worse, verdict):
    import guard as job

    for day in range(1, 13):
        stored(day, "before", 10_000_000 + 1000 * day)
    now = [stored(20, "now", round(factor * 10_000_000) + number) for number in range(3)]
    assert job.compare("before", now) is is_worse
    assert f"resnet50 pytorch SingleStream fp32, latency: {verdict}" in capsys.readouterr().out
