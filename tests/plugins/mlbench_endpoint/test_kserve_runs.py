"""Whole runs on the endpoint with KServe's protocol, in front of our own server and of KServe's (`nox -s kserve`)."""

import os
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlbench import Profile, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.requests import RunRequest, resolve
from mlbench.rules.tiers import Tier
from mlbench.runner import run_benchmark

pytest.importorskip("onnxruntime")
graph_server = pytest.importorskip("graph_server")
pytestmark = pytest.mark.slow

PYTHON = os.environ.get("MLBENCH_KSERVE_PYTHON", "")
"""A Python that has kserve and onnxruntime."""

WORKLOADS = ("resnet50", "bert")

RATE = {"Server": {"load.target_qps": "40"}}
"""Half of what two cores answer; on busy ones the queue grows for twenty seconds, and is answered."""


def exported(workload):
    """Return the name and the ONNX file of a workload's graph."""
    plugin = Plugins.discover().workload(workload)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=plugin.options)
    (graph,) = plugin.model(variant).graphs.values()
    return graph.name, graph.onnx()


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


@pytest.fixture(
    scope="module",
    params=[
        "own",
        pytest.param("kserve", marks=[pytest.mark.kserve, pytest.mark.skipif(not PYTHON, reason="nox -s kserve")]),
    ],
)
def url(request, tmp_path_factory):
    files = dict(map(exported, WORKLOADS))
    if request.param == "own":
        with graph_server.serving(files) as server:
            yield server.url
    else:
        with serving_by_kserve(files, tmp_path_factory.mktemp("kserve") / "log.txt") as found:
            yield found


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


@pytest.mark.parametrize(("workload", "tensors"), [("resnet50", "binary"), ("bert", "binary"), ("bert", "json")])
def test_scores_are_those_of_onnxruntime_in_process(url, workload, tensors, tmp_path):
    settings = {"protocol": "kserve", "url": url, "tensors": tensors}
    ours = run(workload, "endpoint", "Offline", tmp_path, **settings)
    theirs = run(workload, "onnxruntime", "Offline", tmp_path)
    assert ours.verdict.is_accurate
    assert ours.accuracy.scores == theirs.accuracy.scores
    assert ours.runtime.extra["served"]["tensors"] == tensors
    assert ours.engine.batches_by_size


def test_samples_that_arrive_over_time_are_all_answered_right(url, tmp_path):
    """Whether a rate is held depends on what else the machine does."""
    settings = {"protocol": "kserve", "url": url, "tensors": "binary"}
    record = run("resnet50", "endpoint", "Server", tmp_path, **settings)
    assert record.verdict.is_accurate
    (sound,) = [rule for rule in record.verdict.rules if rule.rule == "replies_sound"]
    assert sound.passed
