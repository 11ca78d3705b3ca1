"""Whole runs on the endpoint with KServe's protocol, in front of our own server and of KServe's (`nox -s kserve`)."""

import os
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlbench.discovery import Plugins
from mlbench.graph_export.export import ExportRequest, export_graphs
from mlbench.planning.requests import RunRequest, resolve
from mlbench.rules.tiers import Tier
from mlbench.running.runner import run_benchmark

pytest.importorskip("onnxruntime")
graph_server = pytest.importorskip("graph_server")
pytestmark = pytest.mark.thorough("servers")

PYTHON = os.environ.get("MLBENCH_KSERVE_PYTHON", "")
"""A Python that has kserve and onnxruntime."""

FEW = ("resnet50", "bert")
MORE = ("retinanet", "3d-unet", "dlrm-v2", "stable-diffusion-xl")
"""In front of KServe's server alone: they take minutes."""

NEEDS_KSERVE = (pytest.mark.kserve, pytest.mark.skipif(not PYTHON, reason="nox -s kserve"))

RATE = {"Server": {"load.target_qps": "40"}}
"""Half of what two cores answer; on busy ones the queue grows for twenty seconds, and is answered."""


def exported(workloads, folder):
    """Return the files that `mlbench onnx` writes, by what the server is to call them."""
    found = {}
    for workload in workloads:
        request = ExportRequest(workload=workload, overrides={})
        for graph in export_graphs(request, Plugins.discover(), folder / workload).graphs:
            found[f"{workload}-{graph.name}"] = folder / workload / graph.file
    return found


@contextmanager
def serving_by_kserve(files, log):
    """Give the URL of KServe's own server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = Path(__file__).parent / "kserve_server.py"
    command = [PYTHON, str(script), str(port), *(f"{name}={file}" for name, file in files.items())]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            while not answers(f"{url}/v2/health/ready"):
                assert process.poll() is None, log.read_text()
            yield url
        finally:
            process.kill()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def kserve_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kserve")
    with serving_by_kserve(exported((*FEW, *MORE), folder), folder / "log.txt") as found:
        yield found


@pytest.fixture(scope="module", params=["own", pytest.param("kserve", marks=NEEDS_KSERVE)])
def url(request, tmp_path_factory):
    if request.param == "kserve":
        yield request.getfixturevalue("kserve_url")
    else:
        with graph_server.serving(exported(FEW, tmp_path_factory.mktemp("own"))) as server:
            yield server.url


def run(workload, backend, scenario, results, **settings):
    overrides = {f"backend.{name}": value for name, value in settings.items()} | RATE.get(scenario, {})
    request = RunRequest(
        workload=workload,
        backend=backend,
        scenario=scenario,
        tier=Tier.SMOKE,
        power="none",
        overrides=overrides,
        results=results,
    )
    plugins = Plugins.discover()
    return run_benchmark(resolve(request, plugins), plugins, lambda progress: None)


def served(workload, url, tensors="binary"):
    return {"protocol": "kserve", "url": url, "tensors": tensors, "model": f"{workload}-{{graph}}"}


@pytest.mark.parametrize(
    ("workload", "tensors"),
    [
        ("resnet50", "binary"),
        pytest.param("bert", "binary", marks=pytest.mark.thorough("servers")),
        pytest.param("bert", "json", marks=pytest.mark.thorough("servers")),
    ],
)
def test_scores_are_those_of_onnxruntime_in_process(url, workload, tensors, tmp_path):
    ours = run(workload, "endpoint", "Offline", tmp_path, **served(workload, url, tensors))
    theirs = run(workload, "onnxruntime", "Offline", tmp_path)
    assert ours.verdict.is_accurate
    assert ours.accuracy.scores == theirs.accuracy.scores
    assert ours.runtime.extra["served"]["tensors"] == tensors
    assert ours.engine.batches_by_size


@pytest.mark.kserve
@pytest.mark.skipif(not PYTHON, reason="nox -s kserve")
@pytest.mark.parametrize("workload", MORE)
def test_all_graphs_of_a_workload_have_the_scores_of_onnxruntime_in_process(kserve_url, workload, tmp_path):
    ours = run(workload, "endpoint", "Offline", tmp_path, **served(workload, kserve_url))
    theirs = run(workload, "onnxruntime", "Offline", tmp_path)
    assert ours.verdict.is_accurate
    assert ours.accuracy.scores == theirs.accuracy.scores
    assert len(ours.runtime.extra["served"]["models"]) == (4 if workload == "stable-diffusion-xl" else 1)


@pytest.mark.thorough("servers")
def test_samples_that_arrive_over_time_are_all_answered_right(url, tmp_path):
    """Whether a rate is held depends on what else the machine does."""
    record = run("resnet50", "endpoint", "Server", tmp_path, **served("resnet50", url))
    assert record.verdict.is_accurate
    (sound,) = [rule for rule in record.verdict.rules if rule.rule == "replies_sound"]
    assert sound.passed
