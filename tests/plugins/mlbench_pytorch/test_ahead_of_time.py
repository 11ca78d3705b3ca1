"""Graphs compiled ahead of time; in processes of their own, as torch's compiler minds earlier imports."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench import Dim, GraphError, Precision, Profile, TensorSpec, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.toolkit import ModuleGraph, TorchOptions

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="compiling needs a C++ compiler")

ROWS, SLOTS, LENGTH = (Dim(name=name, smallest=1, usual=2, largest=16) for name in ("rows", "slots", "length"))


class Tally(torch.nn.Module):
    """Writes twice the numbers into the first rows, each at its column, and returns the rows' sums."""

    def forward(self, numbers, columns, notes):
        rows = numbers.shape[0]  # not len(), which to the tracer is a constant
        notes.index_put_((torch.arange(rows), columns), 2 * numbers)
        return notes[:rows].sum(dim=1), notes


def compiled(compile=True, threads=1):
    return backend(compile, threads).compile(tally_graph(), Precision.FP32)


def backend(compile, threads=1):
    return PyTorch().with_options(TorchOptions(device="cpu", threads=threads, compile=compile))


def tally_graph():
    return ModuleGraph(
        "tally",
        inputs=(
            TensorSpec(name="numbers", shape=(ROWS,), dtype="float32"),
            TensorSpec(name="columns", shape=(ROWS,), dtype="int64"),
        ),
        outputs=(TensorSpec(name="sums", shape=(ROWS,), dtype="float32"),),
        state=(TensorSpec(name="notes", shape=(SLOTS, LENGTH), dtype="float32"),),
        build=Tally,
        fingerprint="tally",
    )


def write(executable, state, numbers, columns):
    return executable({"numbers": np.array(numbers, np.float32), "columns": np.array(columns)}, state)["sums"].tolist()


def tally_in_several_sizes():
    executable = compiled()
    state = executable.new_state({"slots": 4, "length": 6})
    address = state[0].data_ptr()
    assert write(executable, state, [1, 2, 3], [0, 5, 2]) == [2, 4, 6]
    assert write(executable, state, [10], [4]) == [22]
    assert write(executable, state, [5, 5, 5, 5], [0, 0, 0, 0]) == [30, 14, 16, 10]
    assert state[0].data_ptr() == address
    assert state[0].tolist()[:2] == [[10, 0, 0, 0, 20, 0], [10, 0, 0, 0, 0, 4]]
    smallest = executable.new_state({"slots": 1, "length": 1})
    assert write(executable, smallest, [7], [0]) == [14]


def tally_from_the_cache():
    def refuse(*_, **__):
        raise AssertionError("compiled again")

    torch._inductor.aoti_compile_and_package = refuse
    for threads in (1, 2):
        executable = compiled(threads=threads)
        assert torch.get_num_threads() == threads
        assert write(executable, executable.new_state({"slots": 2, "length": 3}), [1, 2], [0, 1]) == [2, 4]


def tally_without_a_compiler():
    with pytest.raises(GraphError, match=r"graph tally cannot be compiled .*: .*No working C\+\+ compiler") as caught:
        compiled()
    assert "C++ compiler" in caught.value.hint


def tally_unasked():
    made = backend("auto")
    executable = made.for_workers(1).compile(tally_graph(), Precision.FP32)
    assert write(executable, executable.new_state({"slots": 2, "length": 3}), [1, 2], [0, 1]) == [2, 4]
    facts = made.observe()
    assert (facts.compiled, facts.extra.get("eager")) == ("tally", None)


def tally_with_a_compiler_that_fails():
    made = backend("auto")
    executable = made.compile(tally_graph(), Precision.FP32)
    assert write(executable, executable.new_state({"slots": 2, "length": 3}), [1, 2], [0, 1]) == [2, 4]
    facts = made.observe()
    assert facts.compiled is None
    assert "graph tally cannot be compiled ahead of time" in facts.extra["eager"]["tally"]


def images_graph():
    def build():
        torch.manual_seed(3)
        layers = (torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
        return torch.nn.Sequential(*layers).eval()

    return ModuleGraph(
        "images",
        inputs=(TensorSpec(name="images", shape=(ROWS, 3, 16, 16), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name="planes", shape=(ROWS, 4, 12, 12), dtype="float32"),),
        build=build,
        fingerprint="seed 3",
    )


def images_as_eager():
    agree(images_graph(), "planes", (1, 2, 5, 16))


def networks_as_eager():
    for name in ("resnet50", "bert"):
        workload = Plugins.discover().workload(name)
        variant = Variant(options=workload.options, profile=Profile.MINI, weights=Weights.TRAINED)
        for graph in workload.model(variant).graphs.values():
            agree(graph, graph.outputs[0].name, (1, 3))


def agree(graph, output, rows):
    ahead, eager = (backend(compile).compile(graph, Precision.FP32) for compile in (True, False))
    allowed, numbers = graph.tolerance(Precision.FP32), np.random.default_rng(4)
    for count in rows:
        shapes = (
            (spec, (count, *(size.usual if isinstance(size, Dim) else size for size in spec.shape[1:])))
            for spec in graph.inputs
        )
        inputs = {spec.name: numbers.uniform(0, 2, shape).astype(spec.dtype) for spec, shape in shapes}
        expected = eager(inputs)[output]
        np.testing.assert_allclose(ahead(inputs)[output], expected, atol=allowed.absolute, rtol=allowed.relative)


def images_unasked():
    said = []
    for _ in range(2):
        made = backend("auto")
        made.compile(images_graph(), Precision.FP32)
        facts = made.observe()
        said.append((facts.compiled, facts.extra.get("eager")))
    assert said[0] == said[1]
    assert said[0] == ("images", None) or "measured: " in said[0][1]["images"]


def images_of_a_caller():
    layer, graph = torch.nn.Conv2d(3, 4, 5), images_graph()
    torch.nn.init.zeros_(layer.weight), torch.nn.init.zeros_(layer.bias)
    graph.module = lambda: layer  # the cache has the graph's own
    compiled = backend(True).compile(graph, Precision.FP32)
    assert not compiled({"images": np.ones((2, 3, 16, 16), np.float32)})["planes"].any()


def in_a_process(function, cache, **environment):
    script = f"import runpy; runpy.run_path({__file__!r})[{function.__name__!r}]()"
    environment = {**os.environ, "MLBENCH_CACHE": str(cache), **environment}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


@pytest.mark.thorough("compilers")
@needs_compiler
def test_code_compiled_once_serves_all_sizes_and_numbers_of_threads_and_comes_from_the_cache_the_next_time(tmp_path):
    in_a_process(tally_in_several_sizes, tmp_path)
    in_a_process(tally_from_the_cache, tmp_path)
    in_a_process(tally_unasked, tmp_path)


@pytest.mark.thorough("compilers")
@needs_compiler
def test_a_graph_without_state_is_as_the_eager_one_in_all_sizes_and_is_measured_where_that_is_left_open(tmp_path):
    in_a_process(images_as_eager, tmp_path)
    in_a_process(images_unasked, tmp_path)
    in_a_process(images_of_a_caller, tmp_path)


@pytest.mark.thorough("compilers")
@needs_compiler
def test_networks_of_workloads_are_as_the_eager_ones(tmp_path):
    in_a_process(networks_as_eager, tmp_path)


@pytest.mark.thorough("compilers")
def test_without_a_compiler_a_line_says_so_and_nothing_is_kept(tmp_path):
    in_a_process(tally_without_a_compiler, tmp_path, CXX=str(tmp_path / "none"))
    assert not list((tmp_path / "ahead_of_time").iterdir())


@pytest.mark.thorough("compilers")
def test_where_the_compiler_fails_it_runs_eagerly_if_nobody_asked_for_compiling(tmp_path):
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\nexit 1\n")
    fails.chmod(0o755)
    in_a_process(tally_with_a_compiler_that_fails, tmp_path, CXX=str(fails))
