"""What oneDNN's bf16 and int8 kernels gain on this CPU: full-size networks with random weights, in one run.

    python benchmarks/cpu_amx.py                            # BERT-large and ResNet-50
    python benchmarks/cpu_amx.py --graph bert --threads 2

Each graph is compiled by every side from the same weights, and called with the same inputs and threads; nothing else of
mlbench is in the way. Rounds alternate, and the median of the rounds' ratios to torch's eager fp32 is reported with the
smallest and the largest. On a machine that others use, ``--clock cpu`` counts this process's processor time instead of
what passed. int8 is calibrated with the inputs themselves: with random weights only its speed means anything.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench import Dim, Executable, Graph, GraphBackend, Precision, Profile, TensorSpec, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.toolkit import ModuleGraph

CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}

SIDES = {
    "torch, eager fp32": ("pytorch", Precision.FP32),
    "torch, eager bf16": ("pytorch", Precision.BF16),
    "cpu_amx fp32": ("cpu_amx", Precision.FP32),
    "cpu_amx bf16": ("cpu_amx", Precision.BF16),
    "cpu_amx int8": ("cpu_amx", Precision.INT8),
}
BASE = "torch, eager fp32"

LARGEST_TOKEN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A graph of the full profile, and how large a call is."""

    workload: str
    graph: str
    sizes: Mapping[str, int]


CASES = {
    "bert": Case(workload="bert", graph="reader", sizes={"batch": 8, "tokens": 384}),
    "resnet50": Case(workload="resnet50", graph="classifier", sizes={"batch": 32}),
}


def random_inputs(graph: Graph, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Return seeded inputs: numbers about zero, or token ids and masks of ones."""
    rng = np.random.default_rng(0)

    def drawn(spec: TensorSpec) -> np.ndarray:
        shape = [sizes[dim.name] if isinstance(dim, Dim) else dim for dim in spec.shape]
        if spec.dtype == "float32":
            return rng.standard_normal(shape, dtype=np.float32)
        return rng.integers(0, LARGEST_TOKEN, shape) if spec.name == "input_ids" else np.ones(shape, spec.dtype)

    return {spec.name: drawn(spec) for spec in graph.inputs}


def calibrated(graph: Graph, inputs: Mapping[str, np.ndarray]) -> Graph:
    """Return a graph with calibration inputs, of which random weights have none."""
    return ModuleGraph(
        graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        build=graph.module,
        fingerprint=graph.fingerprint,
        calibrate=lambda: iter([inputs]),
    )


def executables(plugins: Plugins, graph: Graph, threads: int, sides: Sequence[str]) -> dict[str, Executable]:
    """Compile a graph for each side."""
    made = {}
    for side in sides:
        name, precision = SIDES[side]
        backend = plugins.backend(name)
        assert isinstance(backend, GraphBackend)
        options = dataclasses.replace(backend.options, threads=threads)
        made[side] = backend.with_options(options).compile(graph, precision)
    return made


def seconds(
    sides: Mapping[str, Executable], inputs: Mapping[str, np.ndarray], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Return how long each side's calls took, a round after the other; the first is not counted."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds + 1):
        for side, executable in sides.items():
            started = clock()
            executable(inputs)
            taken[side].append(clock() - started)
    return {side: times[1:] for side, times in taken.items()}


@click.command()
@click.option("--graph", "names", multiple=True, type=click.Choice(list(CASES)), default=tuple(CASES))
@click.option("--side", "sides", multiple=True, type=click.Choice(list(SIDES)), default=tuple(SIDES))
@click.option("--rounds", default=11, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--clock", type=click.Choice(list(CLOCKS)), default="wall", show_default=True)
def main(names: Sequence[str], sides: Sequence[str], rounds: int, threads: int, clock: str) -> None:
    """Print the time of a call on each side, and how many times faster than torch's eager fp32 it is."""
    plugins = Plugins.discover()
    table = Table(title=f"full size, random weights, {threads} threads: median of {rounds} rounds, {clock} time")
    for heading in ("graph", "call", "side", "ms", "times faster", "from", "to"):
        table.add_column(heading)
    for name in names:
        case = CASES[name]
        workload = plugins.workload(case.workload)
        variant = Variant(profile=Profile.FULL, weights=Weights.RANDOM, options=workload.options)
        graph = workload.model(variant).graphs[case.graph]
        inputs = random_inputs(graph, case.sizes)
        made = executables(plugins, calibrated(graph, inputs), threads, list(dict.fromkeys([BASE, *sides])))
        taken = seconds(made, inputs, rounds, CLOCKS[clock])
        for side, times in taken.items():
            ratios = [base / own for base, own in zip(taken[BASE], times, strict=True)]
            call = ", ".join(f"{size} {dim}" for dim, size in case.sizes.items())
            numbers = (statistics.median(ratios), min(ratios), max(ratios))
            table.add_row(name, call, side, f"{statistics.median(times) * 1e3:,.1f}", *(f"{n:.2f}" for n in numbers))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
