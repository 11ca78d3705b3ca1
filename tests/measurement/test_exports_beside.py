"""Exports side by side, in real runs of a workload with two graphs from an empty cache."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlbench import Profile
from mlbench.execution import onnx_export
from mlbench.measurement import exports_beside

PLUGIN = '''
import os
import signal
import sys
import time
from dataclasses import replace

from mlbench import Dim, TensorSpec, hookimpl
from mlbench.folders import cache_folder
from mlbench.toolkit import ModuleGraph
from mlbench_resnet50.workload import ResNet50

IS_BESIDE = any("exports_beside" in word for word in sys.orig_argv)


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
        if os.environ["TWINS"] == "fail" and IS_BESIDE:
            raise ValueError("not here")
        if os.environ["TWINS"] == "die" and IS_BESIDE:
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
        first = First(name, inputs=graph.inputs, outputs=graph.outputs, build=small(graph), fingerprint="small")
        spec = TensorSpec(name="x", shape=(Dim(name="rows", smallest=1, usual=2, largest=4), 3), dtype="float32")
        outputs = (replace(spec, name="y"),)
        second = Second("second", inputs=(spec,), outputs=outputs, build=torch.nn.Tanh, fingerprint="tanh")
        return replace(model, graphs={name: first, "second": second})


@hookimpl
def mlbench_workloads():
    return [Twins()]
'''


@pytest.fixture
def run(tmp_path):
    """Return a function that makes a run from an empty cache, and returns its record and its log."""
    (tmp_path / "mlbench_twins.py").write_text(PLUGIN)
    info = tmp_path / "mlbench_twins-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlbench-twins\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mlbench]\ntwins = mlbench_twins\n")

    def run(way):
        places = {"MLBENCH_CACHE": str(tmp_path / "cache"), "MLBENCH_RESULTS": str(tmp_path / "results")}
        words = ("run", "twins", "--backend", "onnxruntime", "--scenario", "Offline", "--no-accuracy", "--json")
        done = subprocess.run(
            [sys.executable, "-m", "mlbench", *words],
            env={**os.environ, **places, "PYTHONPATH": str(tmp_path), "TWINS": way},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        (record,) = json.loads(done.stdout)
        log = Path(tmp_path, "results", record["run_id"], "log.txt").read_text()
        return record, [line.partition("INFO ")[2] for line in log.splitlines() if "exporting" in line], log

    return run


BESIDE = "export: mlbench.execution.onnx_export: exporting second to ONNX"


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_the_last_graph_is_exported_by_another_process_while_the_run_exports_the_first(run):
    """The first waits for the second here: one after another they would never end."""
    record, exports, _ = run("wait")
    assert record["verdict"]["is_valid"]
    assert len(exports) == 2
    assert BESIDE in exports


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fail", "die"])
def test_a_graph_that_is_not_exported_there_is_exported_by_the_run(run, way):
    record, exports, log = run(way)
    assert record["verdict"]["is_valid"]
    assert exports[-1] == "mlbench.execution.onnx_export: exporting second to ONNX"
    if BESIDE in exports:  # unless the run was faster
        assert ("second is left to the run" in log) is (way == "fail")


def test_a_run_goes_on_where_no_process_can_be_started(monkeypatch, caplog):
    def refuse(module):
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(exports_beside, "SideProcess", refuse)
    monkeypatch.setattr(exports_beside, "physical_cores", lambda: [0, 1])
    job = SimpleNamespace(variant=SimpleNamespace(profile=Profile.MINI))
    with exports_beside.exports_beside(job, SimpleNamespace(graphs={"one": None, "two": None})):
        (begins,) = onnx_export._watchers
        begins()
        begins()
    assert "one after another" in caplog.text
    assert onnx_export._watchers == []
