"""Exports on all cores, in real runs of workloads with two graphs from an empty cache."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlbench import Profile
from mlbench.contracts.scenario import LoadSettings
from mlbench.errors import UsageError
from mlbench.execution.export import onnx_export
from mlbench.measurement import exports_ahead
from mlbench.wire.progress import Steps

PLUGIN = '''
import os
import signal
import sys
import time
from dataclasses import replace

from mlbench import Dim, TensorSpec, hookimpl
from mlbench.system.folders import cache_folder
from mlbench.toolkit import ModuleGraph
from mlbench_resnet50.workload import ResNet50

IS_AHEAD = any("exports_ahead" in word for word in sys.orig_argv)


def wait_for_another():
    """Return once the cache has a graph."""
    ended_s = time.monotonic() + 120
    while not any((cache_folder() / "onnx").glob("*/second.onnx")):
        assert time.monotonic() < ended_s, "the second graph is not exported"
        time.sleep(0.05)


class First(ModuleGraph):
    def module(self):
        if os.environ["TWINS"] == "wait":
            wait_for_another()
        return super().module()


class Second(ModuleGraph):
    def module(self):
        if os.environ["TWINS"] == "fail" and IS_AHEAD:
            raise ValueError("not here")
        if os.environ["TWINS"] == "die" and IS_AHEAD:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().module()


def small(graph):
    """Return what builds a network of the graph's form that is exported in a second."""
    classes = graph.outputs[0].shape[-1]

    def build():
        import torch

        layers = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, classes))
        return torch.nn.Sequential(*layers)

    return build


class Twins(ResNet50):
    __module__ = ResNet50.__module__
    name = "twins"
    title = "ResNet-50 with a second graph"

    def model(self, variant):
        import torch

        model = super().model(variant)
        ((name, graph),) = model.graphs.items()
        first = First(name, inputs=graph.inputs, outputs=graph.outputs, build=small(graph), fingerprint=self.name)
        spec = TensorSpec(name="x", shape=(Dim(name="rows", smallest=1, usual=2, largest=4), 3), dtype="float32")
        outputs = (replace(spec, name="y"),)
        second = Second("second", inputs=(spec,), outputs=outputs, build=torch.nn.Tanh, fingerprint=self.name)
        return replace(model, graphs={name: first, "second": second})


class FirstTwins(Twins):
    __module__ = ResNet50.__module__
    name = "first-twins"


class LaterTwins(Twins):
    __module__ = ResNet50.__module__
    name = "later-twins"


@hookimpl
def mlbench_workloads():
    return [FirstTwins(), Twins(), LaterTwins()]
'''


@pytest.fixture
def run(tmp_path):
    """Return a function that makes runs from an empty cache, and returns the record and the folder of each."""
    (tmp_path / "mlbench_twins.py").write_text(PLUGIN)
    info = tmp_path / "mlbench_twins-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlbench-twins\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mlbench]\ntwins = mlbench_twins\n")

    def run(way, *workloads):
        places = {"MLBENCH_CACHE": str(tmp_path / "cache"), "MLBENCH_RESULTS": str(tmp_path / "results")}
        words = ("--backend", "onnxruntime", "--scenario", "Offline", "--no-accuracy", "--json")
        done = subprocess.run(
            [sys.executable, "-m", "mlbench", "run", *workloads, *words],
            env={
                **os.environ,
                **places,
                "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))),
                "TWINS": way,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        records = json.loads(done.stdout)
        return records, [Path(tmp_path, "results", record["run_id"]) for record in records]

    return run


def exported(log):
    """Return what a log says was exported, in its order."""
    return [line.rpartition("exporting ")[2] for line in log.read_text().splitlines() if "exporting " in line]


@pytest.mark.thorough("exports")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_the_graphs_of_a_model_are_exported_side_by_side(run):
    """The first waits for the second here: one after another they would never end."""
    (record,), (folder,) = run("wait", "twins")
    assert record["verdict"]["is_valid"]
    assert len(exported(folder / "exports.txt")) == 2
    assert exported(folder / "log.txt") == []


@pytest.mark.thorough("exports")
def test_a_run_that_must_export_does_so_for_later_runs_of_the_command_and_the_first_for_itself(run):
    (first, record, later), (first_folder, folder, later_folder) = run("", "first-twins", "twins", "later-twins")
    assert len(exported(first_folder / "exports.txt")) == 2
    assert first["verdict"]["is_valid"]
    assert record["verdict"]["is_valid"]
    assert later["verdict"]["is_valid"]
    assert len(exported(folder / "exports.txt")) == 4
    assert exported(later_folder / "log.txt") == []
    assert "export" in record["stages_ns"]
    assert "export" not in later["stages_ns"]
    assert not (later_folder / "exports.txt").exists()


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("way", ["fail", "die"])
def test_a_graph_that_is_not_exported_there_is_exported_by_the_run(run, way):
    (record,), (folder,) = run(way, "twins")
    assert record["verdict"]["is_valid"]
    assert exported(folder / "log.txt")[-1] == "second to ONNX"
    assert ("second is left to the run" in (folder / "exports.txt").read_text()) is (way == "fail")


def test_graphs_of_later_runs_are_not_begun_late(monkeypatch):
    asked = []
    graphs = [SimpleNamespace(name=name, onnx=lambda name=name: asked.append(name)) for name in "abc"]
    monkeypatch.setattr(exports_ahead, "_graphs", graphs)
    monkeypatch.setattr(exports_ahead, "_LATER_WITHIN_S", -1.0)
    told = []
    channel = SimpleNamespace(progress=lambda stage, said: told.append((stage, said)))
    with ThreadPoolExecutor(1) as pool:
        assert exports_ahead._export_all(pool, 2, channel) == 2
    assert asked == ["a", "b"]
    assert told[-1] == ("export", Steps(done=2, of=3))


def test_a_run_goes_on_where_no_process_can_be_started(monkeypatch, caplog, tmp_path):
    calls = []

    def refuse(*words):
        calls.append(words)
        raise UsageError("no more processes.")

    monkeypatch.setattr(exports_ahead, "call_isolated", refuse)
    spec = SimpleNamespace(
        workload="bert", profile="mini", weights="trained", settings={}, transform="", later_models=()
    )
    variant = SimpleNamespace(profile=Profile.MINI)
    job = SimpleNamespace(variant=variant, spec=spec, folder=tmp_path, load=LoadSettings())
    told = []
    with exports_ahead.exports_ahead(job, SimpleNamespace(progress=told.append)):
        (is_missing,) = onnx_export._watchers
        is_missing()
        is_missing()
    assert told == ["export", "compile"]
    ((*_, limits, _),) = calls
    assert limits.stage_timeout_s == 300  # so long may a model of another run hang
    assert "no more processes" in caplog.text
    assert onnx_export._watchers == []


def test_the_graphs_of_a_full_model_are_exported_by_the_run_alone():
    job = SimpleNamespace(variant=SimpleNamespace(profile=Profile.FULL))
    with exports_ahead.exports_ahead(job, channel=None):
        assert onnx_export._watchers == []
