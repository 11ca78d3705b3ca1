"""What compiling gains a language model on the backend pytorch: two engines on the same weights, in turns, in one run.

    python benchmarks/compiled.py
    python benchmarks/compiled.py --workload gptj --rounds 3
    python benchmarks/compiled.py --clock cpu           # this process's processor time instead of what passed

Both answer each sample of the mini profile in Offline under LoadGen, with as many sequences at a time, on one thread.
The median of the rounds' ratios is reported, which work beside it on the machine disturbs least. Compiling is not
timed: the first run of this command takes some minutes for it, later ones have it in the cache.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack

import click
from offline_rate import mlbench_rate
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, Engine, EnginePlan, Model, Profile, Samples, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
LANGUAGE = ("gptj", "llama2-70b", "mixtral-8x7b")


def rates(name: str, batch: int, rounds: int, clock: Callable[[], float]) -> list[tuple[float, float]]:
    """Return (eager, compiled) samples per second, a pair per round."""
    plugins = Plugins.discover()
    workload, backend = plugins.workload(name), plugins.backend("pytorch")
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    dataset, plan = workload.dataset(variant), EnginePlan(batch=batch)
    indices = list(range(dataset.count))
    with ExitStack() as stack:
        engines = []
        for is_compiled in (False, True):
            options = dataclasses.replace(backend.options, device="cpu", threads=1, compile=is_compiled)
            model = workload.model(variant)
            engines.append(stack.enter_context(engine_of(backend.with_options(options), model, plan)))
            dataset.load(indices)
            engines[-1].warm_up(Samples(indices, indices, dataset))
        found = []
        for _ in range(rounds):
            eager, compiled = (_rate(model, engine, dataset, clock) for engine in engines)
            found.append((eager, compiled))
    return found


def _rate(model: Model, engine: Engine, dataset: Dataset, clock: Callable[[], float]) -> float:
    """Return samples per second of a test, LoadGen included."""
    started_s = clock()
    mlbench_rate(model, engine, dataset)
    return dataset.count / (clock() - started_s)


@click.command()
@click.option("--workload", "workloads", multiple=True, type=click.Choice(LANGUAGE), default=LANGUAGE)
@click.option("--batch", default=64, show_default=True, help="Sequences at a time.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--clock", type=click.Choice(list(CLOCKS)), default="wall", show_default=True)
def main(workloads: tuple[str, ...], batch: int, rounds: int, clock: str) -> None:
    """Print both rates and their ratio for each workload."""
    table = Table(title=f"Offline, mini, fp32, {batch} sequences: median of {rounds} rounds")
    for heading in ("workload", "eager, samples/s", "compiled, samples/s", "ratio", "lowest, highest"):
        table.add_column(heading)
    for name in workloads:
        pairs = rates(name, batch, rounds, CLOCKS[clock])
        eager, compiled = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratios = sorted(second / first for first, second in pairs)
        middle = f"{statistics.median(ratios):.2f}"
        table.add_row(name, f"{eager:,.1f}", f"{compiled:,.1f}", middle, f"{ratios[0]:.2f}, {ratios[-1]:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
