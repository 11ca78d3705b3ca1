"""Offline with a process per core, against one process that has all cores, in one run.

    python benchmarks/instances.py

The ways differ in who has the cores: one worker with a thread for each, as many workers with a thread each, or as many
processes. The first two are tried in a process of their own as well, which shows what the way to another process costs.
Batches are the same in all. Rounds alternate, and the median of the rounds' ratios is reported.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import click
from offline_rate import mlbench_rate
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, Engine, Model, Samples
from mlbench.discovery import Plugins
from mlbench.execution.cores import physical_cores
from mlbench.execution.engine_choice import engine_of
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.measurement.job import Job
from mlbench.records.job_spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Who has the cores."""

    title: str
    processes: int
    """Beside LoadGen's; 0: the engine is in LoadGen's own."""
    workers: int


def ways(cores: int) -> Sequence[Way]:
    """Return the ways to share so many cores, the one that all are held against first."""
    return (
        Way(title=f"{cores} workers", processes=0, workers=cores),
        Way(title=f"{cores} workers, in another process", processes=1, workers=cores),
        Way(title=f"one worker with {cores} threads, in another process", processes=1, workers=1),
        Way(title=f"{cores} processes", processes=cores, workers=1),
    )


def payload_of(workload: str, backend: str, batch: int, way: Way, folder: str) -> Mapping[str, Any]:
    """Return a run as an instance is told of it."""
    names = {"workload": workload, "backend": backend, "scenario": "Offline", "profile": "mini", "weights": "trained"}
    settings = {
        "execution.batching": "bucketed",
        "execution.batch": batch,
        "execution.workers": way.workers,
        "execution.instances": max(1, way.processes),
    }
    more = {"tier": "smoke", "precision": "fp32", "wants_accuracy": False, "uncounted": "a benchmark"}
    return {**names, **more, "settings": settings, "folder": folder}


def opened(stack: ExitStack, payload: Mapping[str, Any], way: Way) -> tuple[Model, Engine, Dataset]:
    """Return an engine that is warm, with the model whose samples it answers and the dataset that loads them for it."""
    job = Job.of_spec(JobSpec(**payload), Plugins.discover())
    model, dataset = job.workload.model(job.variant), job.workload.dataset(job.variant)
    engine: Engine
    if way.processes:
        building = Building(builder="mlbench.measurement.running_engine:part_of_run", payload=payload)
        engine = stack.enter_context(ReplicatedEngine(building, way.processes, model, job.plan, dataset))
        dataset = engine.library
    else:
        engine = stack.enter_context(engine_of(job.backend, model, job.plan))
    everything = range(dataset.count)
    dataset.load(everything)
    engine.warm_up(Samples(everything, everything, dataset))
    return model, engine, dataset


def rates(workload: str, backend: str, batch: int, rounds: int) -> list[list[float]]:
    """Return samples per second, a row per round with a number per way."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        all_ways = ways(len(physical_cores()))
        trials = [opened(stack, payload_of(workload, backend, batch, way, folder), way) for way in all_ways]
        return [[mlbench_rate(*trial) for trial in trials] for _ in range(rounds)]


@click.command()
@click.option("--rounds", default=7, show_default=True)
@click.option("--batch", default=8, show_default=True)
@click.option("--workload", "workloads", multiple=True, default=("resnet50", "bert"), show_default=True)
@click.option("--backend", "backends", multiple=True, default=("pytorch", "onnxruntime"), show_default=True)
def main(rounds: int, batch: int, workloads: Sequence[str], backends: Sequence[str]) -> None:
    """Print the rate of each way, and its ratio to that of workers in LoadGen's process."""
    table = Table(title=f"Offline, mini, fp32, batch {batch}: median of {rounds} rounds")
    for heading in ("workload", "backend", "who has the cores", "samples/s", "ratio"):
        table.add_column(heading)
    for workload in workloads:
        for backend in backends:
            found = rates(workload, backend, batch, rounds)
            for place, way in enumerate(ways(len(physical_cores()))):
                rate = statistics.median(row[place] for row in found)
                ratio = statistics.median(row[place] / row[0] for row in found)
                table.add_row(workload, backend, way.title, f"{rate:,.0f}", f"{ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
