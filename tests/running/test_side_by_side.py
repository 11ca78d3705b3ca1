"""Whole commands that make runs side by side: real LoadGen, a process of its own for each run, stored records."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from invoking import invoke

import mlbench as product
from mlbench import IncomparableRunsError
from mlbench.execution.cores import physical_cores
from mlbench.records.run_record import read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(len(physical_cores()) < 2, reason="two lanes need two cores"),
]

HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""Where these tests are a shell's job in the background, SIGINT is ignored, and so it is in their children."""
MLBENCH = [sys.executable, "-c", f"{HEEDING}import sys; from mlbench.cli import main; sys.exit(main())"]
FAULTY = Path(__file__).parents[1] / "data" / "faulty_plugin"
WITHIN_S = 60
SERVICE = {"backend.service_ms": 5, "load.min_duration_ms": 2000}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    return tmp_path / "results"


def sets(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def test_runs_on_two_lanes_are_valid_overlap_and_say_so(results):
    scenarios = ["Offline", "SingleStream", "Offline", "SingleStream"]
    began_s = time.monotonic()
    records = product.run(
        ["resnet50", "bert"], backend="null", scenario=scenarios[:2], accuracy=False, parallel=2, settings=SERVICE
    )
    took_s = time.monotonic() - began_s
    assert [(each.workload, each.scenario) for each in records] == [
        *(("resnet50", name) for name in scenarios[:2]),
        *(("bert", name) for name in scenarios[:2]),
    ]
    assert all(each.is_good for each in records)
    assert sum(each.duration_ns for each in records) / 1e9 > 1.3 * took_s
    lanes = {each.beside.lane: set(each.beside.processors) for each in records}
    assert lanes.keys() == {1, 2}
    assert not lanes[1] & lanes[2]
    assert {each.environment.allowance.threads for each in records} == {len(lanes[1]), len(lanes[2])}
    assert not any(each.beside.strayed for each in records)
    ids = {each.run_id for each in records}
    for record in records:
        assert all(
            each.run_id in ids - {record.run_id} and each.lane != record.beside.lane for each in record.beside.runs
        )
    assert any(record.beside.runs for record in records)
    assert set(records[0].not_measured) >= {"energy", "roofline", "work"}


def children_of(process, results):
    """Wait until two runs are being measured; return the processes below the command that have a run's work."""
    until_s = time.monotonic() + WITHIN_S
    while len(list(results.glob(".*.partial/performance/*.txt"))) < 2 or len(forked(process)) < 2:
        assert time.monotonic() < until_s and process.poll() is None
        time.sleep(0.1)
    return forked(process)


def forked(process):
    return [each for each in psutil.Process(process.pid).children(recursive=True) if each.num_threads() > 1]


def test_ctrl_c_ends_both_runs_which_had_no_core_in_common_and_leaves_nothing(results):
    words = ["run", "resnet50", "--backend", "null", "--scenario", "Offline", "--scenario", "SingleStream"]
    words += ["--no-accuracy", "--parallel", "2", *sets(SERVICE | {"load.min_duration_ms": 120000})]
    process = subprocess.Popen(
        [*MLBENCH, *words],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = children_of(process, results)
    everything = psutil.Process(process.pid).children(recursive=True)
    parts = {frozenset(os.sched_getaffinity(each.pid)) for each in everything}
    assert len(parts) == 2, "each process is kept to one of two lanes"
    assert not frozenset.intersection(*parts)
    assert {frozenset(os.sched_getaffinity(each.pid)) for each in runs} == parts
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, printed) == (130, ""), said
    assert "Traceback" not in said
    assert list(results.iterdir()) == []
    _, alive = psutil.wait_procs(everything, timeout=10)
    assert alive == []


@pytest.mark.thorough("command line")
def test_a_cell_that_crashes_takes_itself_alone(results, monkeypatch):
    monkeypatch.syspath_prepend(str(FAULTY))
    monkeypatch.setenv("PYTHONPATH", str(FAULTY))
    words = ["run", "resnet50", "--backend", "crash", "--backend", "null", "--scenario", "SingleStream"]
    done = invoke(*words, "--no-accuracy", "--json", "--parallel", "2", *sets({"load.min_duration_ms": 2000}))
    assert done.exit_code == 1, done.output
    crashed, other = json.loads(done.stdout)
    assert (crashed["status"], crashed["failure"]["kind"], crashed["failure"]["stage"]) == (
        "failed",
        "crash",
        "performance",
    )
    assert other["verdict"]["is_valid"]
    assert [each["run_id"] for each in crashed["beside"]["runs"]] == [other["run_id"]]
    assert sorted(folder.name for folder in results.iterdir()) == sorted([crashed["run_id"], other["run_id"]])


SUITE = """
name = "cells"
repeats = 2
[[runs]]
workload = "resnet50"
backend = "null"
scenario = "SingleStream"
accuracy = false
settings = { "load.min_duration_ms" = 2000 }
"""


@pytest.mark.thorough("command line")
def test_a_suite_goes_on_where_it_was_left_and_its_runs_are_told_from_those_made_one_at_a_time(results, tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE)
    made = invoke("run", "--suite", tmp_path / "suite.toml", "--parallel", "2")
    assert made.exit_code == 0, made.output
    assert "2 runs to make; on 2 lanes, " in made.stderr
    more = tmp_path / "more.toml"
    more.write_text(SUITE.replace("repeats = 2", "repeats = 3"))
    records = product.run_suite(more, parallel=2)
    assert [each.repeat for each in records] == [1, 2, 3]
    assert len(list(results.iterdir())) == 3
    alone = product.run(
        "resnet50", backend="null", scenario="SingleStream", accuracy=False, settings=SERVICE, tag="alone"
    )
    with pytest.raises(IncomparableRunsError, match="lanes differs"):
        product.compare(records, alone, across=("settings",))
    assert read(results / records[0].run_id).beside.lanes == 2
