"""mlbench against bare loops of each engine that is installed: the same weights, inputs and cores, interleaved.

    python benchmarks/best_engine.py [--workload retinanet --seconds 5 --engine openvino --engine onnxruntime]

A bare loop calls the graphs of a workload with arrays that its program passed them once, and drops the results: on two
threads, each with executables of its own and its part of the cores, and static shapes where an engine takes them. It
checks no reply and does none of the program's arithmetic (boxes, labels, a sampler's steps). It computes the exported
file as it is, where mlbench may rewrite it. mlbench runs Offline over the same samples through LoadGen, with the
settings of `mlbench run`.

Sides are interleaved in one process (A B A B), and the median of the rounds is printed: samples per second of wall time
and of the process's processor time, which other work on the machine changes less, each also divided by the best bare
engine's. Compiling is not timed; torch.compile needs a C++ compiler and minutes. For language models see generation.py.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from mini_replies import mini_variant
from overhead import Measured, measured, test_of, timed
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, EnginePlan, Graph, GraphBackend, Model, Precision, Samples
from mlbench.contracts.model import BatchProgram
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.loadgen.drive import drive
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.loadgen.watchdog import ProgressCallbacks
from mlbench.planning.requests import RunRequest, resolve
from mlbench.records.machine.cpu import observe_cpu
from mlbench.reports.units import three_digits
from mlbench.toolkit import usable_threads

STREAMS = min(2, usable_threads())
MOST_BATCHES = 4
BATCHES = {"resnet50": 32, "retinanet": 8, "bert": 8, "3d-unet": 2, "dlrm-v2": 4, "stable-diffusion-xl": 16}
"""Samples of a bare loop's batch, by workload."""
Inputs = Mapping[str, np.ndarray]
Calls = list[tuple[Graph, Inputs]]
Call = Callable[[], object]
Rates = tuple[float, float]  # samples per second of wall time and of processor time


def record_calls(model: Model, dataset: Dataset, batch: int) -> tuple[Calls, int]:
    """Return the calls that a few batches need, made once with torch's modules, and the samples of these batches."""
    assert isinstance(model.program, BatchProgram)
    calls: Calls = []
    torch_backend = Plugins.discover().backend("pytorch")
    assert isinstance(torch_backend, GraphBackend)

    def recorded(graph: Graph) -> Callable[[Inputs], Any]:
        compute = torch_backend.compile(graph, Precision.FP32)

        def run(inputs: Inputs) -> Any:
            calls.append((graph, {name: np.array(array) for name, array in inputs.items()}))
            return compute(inputs)

        return run

    graphs = {name: recorded(graph) for name, graph in model.graphs.items()}
    count = min(dataset.performance_count, MOST_BATCHES * batch) // batch * batch
    samples = sorted((dataset.sample(index) for index in range(count)), key=model.program.length)
    for start in range(0, count, batch):
        model.program.run(samples[start : start + batch], graphs)
    return calls, count


def with_onnxruntime(calls: Calls, threads: int) -> list[Call]:
    """Return the calls as ONNX Runtime's, with a session for each graph."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    files = {graph.name: graph.onnx() for graph, _ in calls}
    sessions = {name: onnxruntime.InferenceSession(file, options) for name, file in files.items()}
    return [partial(sessions[graph.name].run, None, dict(inputs)) for graph, inputs in calls]


def with_openvino(calls: Calls, threads: int) -> list[Call]:
    """Return the calls as OpenVINO's, with a model for each shape of a graph's inputs."""
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "ENABLE_CPU_PINNING": False}
    core = openvino.Core()
    requests: dict[Any, Any] = {}
    made: list[Call] = []
    for graph, inputs in calls:
        key = graph.name, tuple((name, array.shape) for name, array in inputs.items())
        if key not in requests:
            model = core.read_model(graph.onnx())
            model.reshape({name: openvino.PartialShape(list(shape)) for name, shape in key[1]})
            requests[key] = core.compile_model(model, "CPU", settings).create_infer_request()
        tensors = {name: openvino.Tensor(array, shared_memory=True) for name, array in inputs.items()}
        made.append(partial(requests[key].infer, tensors, share_outputs=True))
    return made


def with_torch(calls: Calls, threads: int, *, compiles: bool = False) -> list[Call]:
    """Return the calls as those of torch's modules, or of what torch.compile makes of each."""
    import torch

    torch.set_num_threads(threads)
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}

    def lay_out(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous(memory_format=layouts.get(tensor.ndim, torch.contiguous_format))

    modules: dict[str, Any] = {graph.name: graph.module() for graph, _ in calls}
    for name, module in modules.items():
        for weight in (*module.parameters(), *module.buffers()):
            weight.data = lay_out(weight.data)
        if compiles:
            modules[name] = torch.compile(module, dynamic=False, options={"freezing": True})

    def call(graph: Graph, inputs: Inputs) -> Call:
        tensors = [lay_out(torch.from_numpy(inputs[spec.name])) for spec in graph.inputs]
        return lambda: torch.no_grad()(modules[graph.name])(*tensors)

    return [call(*each) for each in calls]


ENGINES: Mapping[str, tuple[str, Callable[[Calls, int], list[Call]]]] = {
    "onnxruntime": ("onnxruntime", with_onnxruntime),
    "openvino": ("openvino", with_openvino),
    "torch": ("torch", with_torch),
    "torch.compile": ("torch", partial(with_torch, compiles=True)),
}


class BareLoop:
    """Threads that call an engine over and over."""

    def __init__(self, engine: str, calls: Calls, samples: int) -> None:
        """Compile on the threads that call, one after another: a runtime may keep threads for each."""
        self._samples = samples
        self._threads = [ThreadPoolExecutor(1) for _ in range(STREAMS)]
        make = partial(ENGINES[engine][1], calls, max(1, usable_threads() // STREAMS))
        self._calls = [thread.submit(make).result() for thread in self._threads]
        self(0)  # a first call may compile

    def __call__(self, seconds: float) -> Rates:
        """Measure for about so long."""
        begun, processor = time.perf_counter(), time.process_time()

        def repeat(calls: Sequence[Call]) -> tuple[int, float]:
            samples, took = 0, 0.0
            while not samples or took < seconds:
                for call in calls:
                    call()
                samples, took = samples + self._samples, time.perf_counter() - begun
            return samples, took  # a thread that ends first waits for the others

        done = [thread.submit(repeat, calls) for thread, calls in zip(self._threads, self._calls, strict=True)]
        found = [each.result() for each in done]
        processed = sum(samples for samples, _ in found) / (time.process_time() - processor)
        return sum(samples / took for samples, took in found), processed


@contextmanager
def offline(workload: str, backend_name: str, count: int) -> Iterator[Callable[[float], Rates]]:
    """Yield a function that measures Offline of the first samples as `mlbench run` has it."""
    plugins = Plugins.discover()
    settings = resolve(RunRequest(workload=workload, backend=backend_name, scenario=OFFLINE.name), plugins).settings
    backend = plugins.backend(backend_name)
    backend = backend.with_options(settings.fill("backend", backend.options))
    variant = mini_variant(plugins.workload(workload))
    model, dataset = plugins.workload(workload).model(variant), plugins.workload(workload).dataset(variant)
    indices = list(range(count))
    dataset.load(indices)
    with engine_of(backend, model, settings.fill("execution", EnginePlan())) as engine:
        engine.warm_up(Samples(indices, indices, dataset))
        found: Measured | None = None

        def measure(seconds: float) -> Rates:
            nonlocal found
            test = test_of(OFFLINE, found.rate_per_s if found else 1.0, seconds)
            load = replace(test.load, min_query_count=64, performance_sample_count=count)
            test = replace(test, load=load, reply=model.program.reply)
            moments: list[float] = []
            with tempfile.TemporaryDirectory() as folder:
                traffic = drive(test, engine, dataset, Path(folder), ProgressCallbacks(), section=timed(moments))
                assert not traffic.faults, traffic.faults
                found = measured(OFFLINE, Path(folder), moments)
            return found.rate_per_s, 1e6 / found.processor_us

        measure(0.1)  # for the rate
        yield measure


@click.command()
@click.option("--workload", "workloads", multiple=True, type=click.Choice([*BATCHES]), default=[*BATCHES])
@click.option("--engine", "engines", multiple=True, type=click.Choice([*ENGINES]), default=[*ENGINES])
@click.option("--backend", "backends", multiple=True, default=["onnxruntime"], show_default=True, help="Of mlbench.")
@click.option("--seconds", default=2.0, show_default=True, help="Of each measurement.")
@click.option("--rounds", default=3, show_default=True)
def main(workloads: Sequence[str], engines: Sequence[str], backends: Sequence[str], **lasting: Any) -> None:
    """Print samples per second of each side, and their ratio to the best bare engine."""
    machine = f"{observe_cpu(Path('/')).model}, {usable_threads()} threads, load {os.getloadavg()[0]:.1f}"
    table = Table(title="{}; median of {rounds} rounds of {seconds:g} s".format(machine, **lasting))
    for heading in ("workload", "side", "samples/s", "of the best", "per processor s", "of the best "):
        table.add_column(heading, justify="left" if heading in ("workload", "side") else "right")
    installed = [each for each in engines if find_spec(ENGINES[each][0])]
    if not installed:
        raise click.UsageError(f"None of {', '.join(engines)} is installed; install one, or name others by --engine.")
    for workload in workloads:
        for row in rows_of(workload, installed, backends, **lasting):
            table.add_row(workload, *row)
        table.add_section()
    Console(width=120).print(table)


def rows_of(
    workload: str, engines: Sequence[str], backends: Sequence[str], seconds: float, rounds: int
) -> Iterator[Sequence[str]]:
    """Measure a workload's sides interleaved, and yield a row of each."""
    plugin = Plugins.discover().workload(workload)
    variant = mini_variant(plugin)
    dataset = plugin.dataset(variant)
    dataset.load(range(dataset.performance_count))
    recorded = record_calls(plugin.model(variant), dataset, BATCHES[workload])
    with ExitStack() as stack:
        sides: dict[str, Callable[[float], Rates]] = {f"bare {each}": BareLoop(each, *recorded) for each in engines}
        for each in backends:
            sides[f"mlbench {each}"] = stack.enter_context(offline(workload, each, recorded[1]))
        found: dict[str, list[Rates]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, measure in sides.items():
                found[side].append(measure(seconds))
    rates = {side: [statistics.median(column) for column in zip(*each, strict=True)] for side, each in found.items()}
    best = [max(each) for each in zip(*(rates[f"bare {each}"] for each in engines), strict=True)]
    for side, pair in rates.items():
        yield (
            side,
            *(
                text
                for rate, most in zip(pair, best, strict=True)
                for text in (three_digits(rate), f"{rate / most:.2f}")
            ),
        )


if __name__ == "__main__":
    main()
