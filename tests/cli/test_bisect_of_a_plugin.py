"""``mlbench bisect`` on commits of a plugin from outside, whose runs are measured: one is slow, or less accurate."""

import json
import sys

import pytest
from invoking import invoke

PLUGIN = '''
"""A backend that takes so long for a sample, and answers with one class."""
import time
import numpy as np
from mlbench import Backend, Engine, Probe, hookimpl

SAMPLE_S, ANSWER = {seconds}, {answer}


class Sleeping(Engine):
    def submit(self, samples, reply):
        time.sleep(SAMPLE_S * len(samples))
        reply.complete(samples, np.full((len(samples), 1), ANSWER, np.float32))


class Npu(Backend):
    name = "npu"
    computes_answers = False

    def probe(self):
        return Probe(is_available=True, rank=-1000)

    def engine(self, model, plan):
        return Sleeping()


@hookimpl
def mlbench_backends():
    return [Npu()]
'''

ROUNDED = '''
"""torch, with the weights of each row rounded to so many steps."""
from importlib.util import find_spec
from mlbench import Probe, hookimpl
from mlbench.toolkit import TorchBackend

STEPS = {steps}


class Rounded:
    def __init__(self, graph):
        self._graph = graph

    def __getattr__(self, name):
        return getattr(self._graph, name)

    def module(self):
        import torch

        module = self._graph.module()
        with torch.no_grad():
            for weight in module.parameters():
                if weight.ndim > 1:
                    step = weight.abs().amax(dim=tuple(range(1, weight.ndim)), keepdim=True).clamp(min=1e-9) / STEPS
                    weight.copy_((weight / step).round() * step)
        return module


class Npu(TorchBackend):
    name = "npu"

    def probe(self):
        return Probe(is_available=find_spec("torch") is not None, precisions=self.precisions, rank=-1000)

    def compile(self, graph, precision):
        return super().compile(Rounded(graph), precision)


@hookimpl
def mlbench_backends():
    return [Npu()]
'''


@pytest.fixture
def bisect(repository, tmp_path, monkeypatch):
    """Return a function that bisects commits of a plugin, and returns the exit status and what was found."""
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))

    def bisect(sources, *more):
        info = {"METADATA": "Metadata-Version: 2.1\nName: mlbench-npu\nVersion: 1\n"}
        info["entry_points.txt"] = "[mlbench]\nnpu = mlbench_npu\n"
        info = {f"mlbench_npu-1.dist-info/{name}": text for name, text in info.items()}
        folder, commits = repository([{**info, "mlbench_npu.py": source} for source in sources])
        asked = ["bisect", "resnet50", "--backend", "npu", "--scenario", "Offline", "--json"]
        asked += ["--repo", str(folder), "--good", commits[0], "--results", str(tmp_path / "results")]
        done = invoke(*asked, "--mlbench", f"env PYTHONPATH={{folder}} {sys.executable} -m mlbench", *more)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        return done.exit_code, [commits.index(name) for name in found["suspects"]], found

    return bisect


@pytest.mark.thorough("command line")
def test_the_less_accurate_of_three_commits_is_found(bisect):
    """The first class is that of one image in twenty-five, the last of none."""
    sources = [PLUGIN.format(seconds=0, answer=answer) for answer in (0, 0, 999)]
    status, suspects, found = bisect(sources, "--measure", "accuracy")
    assert (status, suspects) == (0, [2])
    assert [round(each["value"], 1) for each in found["tried"]] == [4.0, 4.0, 0.0]


@pytest.mark.thorough("command line")
def test_the_slow_one_of_sixteen_commits_is_found(bisect):
    sources = [PLUGIN.format(seconds=0.001 if place < 9 else 0.00115, answer=0) for place in range(16)]
    status, suspects, found = bisect([f"{source}# {place}\n" for place, source in enumerate(sources)])
    assert (status, suspects) == (0, [9])
    assert found["measure"] == "throughput"
    assert 0.8 < next(each["ratio"] for each in found["tried"] if each["place"] == 9) < 0.92


@pytest.mark.thorough("command line")
def test_of_sixteen_alike_none_is_found(bisect):
    source = PLUGIN.format(seconds=0.001, answer=0)
    status, suspects, found = bisect([f"{source}# {place}\n" for place in range(16)], "--pairs", "4")
    assert (status, suspects, len(found["tried"])) == (1, [], 2)


@pytest.mark.thorough("command line")
def test_the_less_accurate_one_of_sixteen_commits_is_found(bisect):
    sources = [ROUNDED.format(steps=127 if place < 6 else 3) for place in range(16)]
    status, suspects, found = bisect(
        [f"{source}# {place}\n" for place, source in enumerate(sources)], "--measure", "accuracy"
    )
    assert (status, suspects) == (0, [6])
    assert found["measure"] == "acc"
