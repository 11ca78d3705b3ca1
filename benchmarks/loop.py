"""What the harness leaves of a backend's speed: mlbench in Offline against a bare loop, in one run.

    python benchmarks/loop.py

The loop calls the same compiled graphs through the same program with the same batch, on the same samples sorted the
same way, and nothing else: no LoadGen, no queue, no accounting. Rounds alternate, and the median of the rounds' ratios
is reported.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
from offline_rate import batch_program, mlbench_rate
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, EnginePlan, Model, Profile, Samples, Variant, Weights
from mlbench.contracts.backend import GraphBackend
from mlbench.contracts.graph import Executable
from mlbench.discovery import Plugins
from mlbench.execution.batching import by_length
from mlbench.execution.engine_choice import engine_of


def bare_rate(model: Model, graphs: Mapping[str, Executable], data: Sequence[Any], batch: int) -> float:
    """Return samples per second of a loop over batches."""
    program = batch_program(model)
    started = time.perf_counter()
    for start in range(0, len(data), batch):
        program.run(data[start : start + batch], graphs)
    return len(data) / (time.perf_counter() - started)


def ratios(backend: GraphBackend, model: Model, dataset: Dataset, batch: int, rounds: int) -> list[tuple[float, float]]:
    """Return (bare, mlbench) rates, a pair per round."""
    indices = list(range(dataset.count))
    dataset.load(indices)
    samples = Samples(indices, indices, dataset)
    length = batch_program(model).length
    in_order = by_length(samples, [length(sample) for sample in samples.data()]).data()
    plan = EnginePlan(batching="bucketed", batch=batch)
    graphs = {name: backend.compile(graph, plan.precision) for name, graph in model.graphs.items()}
    found = []
    with engine_of(backend, model, plan) as engine:
        engine.warm_up(samples)
        bare_rate(model, graphs, in_order, batch)
        for _ in range(rounds):
            # the dataset stays loaded: LoadGen's own unloading of it is the same set
            bare = bare_rate(model, graphs, in_order, batch)
            found.append((bare, mlbench_rate(model, engine, dataset)))
            dataset.load(indices)
    return found


@click.command()
@click.option("--rounds", default=15, show_default=True)
@click.option("--batch", default=32, show_default=True)
@click.option("--workload", "workloads", multiple=True, default=("resnet50", "bert"), show_default=True)
@click.option("--backend", "backends", multiple=True, default=("pytorch", "onnxruntime"), show_default=True)
def main(rounds: int, batch: int, workloads: Sequence[str], backends: Sequence[str]) -> None:
    """Print both rates and their ratio for each workload and backend."""
    plugins = Plugins.discover()
    table = Table(title=f"Offline, mini, fp32, batch {batch}: median of {rounds} rounds")
    for heading in ("workload", "backend", "bare loop, samples/s", "mlbench, samples/s", "ratio"):
        table.add_column(heading)
    for name in workloads:
        workload = plugins.workload(name)
        variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
        for each in backends:
            backend = plugins.backend(each)
            assert isinstance(backend, GraphBackend)
            pairs = ratios(backend, workload.model(variant), workload.dataset(variant), batch, rounds)
            bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(ours / bare for bare, ours in pairs)
            table.add_row(name, each, f"{bare:,.0f}", f"{ours:,.0f}", f"{ratio:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
