"""mlbench in Offline against the way the reference applications run a workload, in one run.

    python benchmarks/reference_style.py

Both sides call graphs that one backend compiled from the same weights, with the same threads. The reference's side is a
bare loop without LoadGen, so what differs is batching, padding, workers and the work of the host. Rounds alternate, and
the median of the rounds' ratios is reported.

Source of the ways: MLPerf Inference v4.1, the reference application of each workload.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click
import numpy as np
import torch
from mlbench_unet3d.graphs import CLASSES
from mlbench_unet3d.sliding_window import gaussian_weights, window_starts
from offline_rate import batch_program, mlbench_rate
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, Dim, EnginePlan, Executable, GraphBackend, Model, Profile, Samples, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.toolkit import host_array, pad_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a reference application runs samples, a part of them at a time."""

    title: str
    batch: int
    ours: int | Literal["auto"] = "auto"
    """Samples per batch of mlbench: measured, or what the workload's tuning says."""
    run: Callable[[Model, Sequence[Any], Mapping[str, Executable]], object]


def in_one_call(model: Model, samples: Sequence[Any], graphs: Mapping[str, Executable]) -> object:
    """Run a batch as mlbench's own program does."""
    return batch_program(model).run(samples, graphs)


def padded_to_the_longest(model: Model, samples: Sequence[Any], graphs: Mapping[str, Executable]) -> object:
    """Read one question, padded to the longest that the graph takes."""
    (spec, *_) = model.graphs["reader"].inputs
    tokens = spec.shape[1]
    length = tokens.largest if isinstance(tokens, Dim) else tokens
    (sample,) = samples
    arrays = (sample.input_ids, np.ones_like(sample.input_ids), sample.segment_ids)
    inputs = {
        name: pad_rows([array], length=length)
        for name, array in zip(("input_ids", "input_mask", "segment_ids"), arrays, strict=True)
    }
    return np.stack(list(graphs["reader"](inputs).values()), axis=-1)


def window_by_window(model: Model, samples: Sequence[Any], graphs: Mapping[str, Executable]) -> object:
    """Segment one volume: a call per window, whole volumes of sums and weights, then quotient and argmax."""
    (spec,) = model.graphs["segmenter"].inputs
    (output,) = model.graphs["segmenter"].outputs
    (volume,) = samples
    window = spec.shape[-1]
    assert isinstance(window, int)
    weights = gaussian_weights(window)
    sums = np.zeros((CLASSES, *volume.shape), dtype=np.float32)
    norm = np.zeros_like(sums)
    for z, y, x in window_starts(volume.shape, window):
        part = (..., slice(z, z + window), slice(y, y + window), slice(x, x + window))
        logits = host_array(graphs["segmenter"]({spec.name: volume[part][np.newaxis, np.newaxis]})[output.name])[0]
        sums[part] += logits * weights
        norm[part] += weights
    return (sums / norm).argmax(axis=0).astype(np.uint8)


def paired_with_labels(model: Model, samples: Sequence[Any], graphs: Mapping[str, Executable]) -> object:
    """Rank one sample, and put each prediction beside its label, a row at a time, as the reference's reply wants it."""
    (predictions,) = batch_program(model).run(samples, graphs)
    results = torch.from_numpy(np.array(predictions))
    targets = torch.zeros_like(results)  # which labels they are costs nothing
    pairs = [[result, target] for result, target in zip(results, targets, strict=True)]
    good = (results.round() == targets).sum()
    return np.array(pairs, dtype=np.float32).tobytes(), good


WAYS = {
    "resnet50": Way(title="batches of 32", batch=32, run=in_one_call),
    "retinanet": Way(title="one image", batch=1, run=in_one_call),
    "3d-unet": Way(title="one volume, window by window", batch=1, ours=2, run=window_by_window),
    "bert": Way(title="one question, padded to the longest", batch=1, run=padded_to_the_longest),
    "dlrm-v2": Way(title="one sample, labels paired row by row", batch=1, run=paired_with_labels),
}


def reference_rate(way: Way, model: Model, graphs: Mapping[str, Executable], data: Sequence[Any]) -> float:
    """Return samples per second of a bare loop over all samples, in their order."""
    started = time.perf_counter()
    for start in range(0, len(data), way.batch):
        way.run(model, data[start : start + way.batch], graphs)
    return len(data) / (time.perf_counter() - started)


def rates(way: Way, backend: GraphBackend, model: Model, dataset: Dataset, rounds: int) -> list[tuple[float, float]]:
    """Return (reference, mlbench) rates, a pair per round."""
    indices = list(range(dataset.count))
    dataset.load(indices)
    samples = Samples(indices, indices, dataset)
    plan = EnginePlan(batching="bucketed", batch=way.ours, workers=2)  # as their tuning says
    graphs = {name: backend.compile(graph, plan.precision) for name, graph in model.graphs.items()}
    found = []
    with engine_of(backend, model, plan) as engine:
        engine.warm_up(samples)
        reference_rate(way, model, graphs, samples.data())
        for _ in range(rounds):
            reference = reference_rate(way, model, graphs, samples.data())
            found.append((reference, mlbench_rate(model, engine, dataset)))
            dataset.load(indices)  # LoadGen unloaded them
    return found


@click.command()
@click.option("--rounds", default=7, show_default=True)
@click.option("--workload", "workloads", multiple=True, type=click.Choice(list(WAYS)), default=tuple(WAYS))
@click.option("--backend", "backends", multiple=True, default=("pytorch", "onnxruntime"), show_default=True)
def main(rounds: int, workloads: Sequence[str], backends: Sequence[str]) -> None:
    """Print both rates and their ratio for each workload and backend."""
    plugins = Plugins.discover()
    table = Table(title=f"Offline, mini, fp32: median of {rounds} rounds")
    for heading in ("workload", "the reference's way", "backend", "it, samples/s", "mlbench, samples/s", "ratio"):
        table.add_column(heading)
    for name in workloads:
        workload = plugins.workload(name)
        variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
        model, dataset = workload.model(variant), workload.dataset(variant)
        for each in backends:
            backend = plugins.backend(each)
            assert isinstance(backend, GraphBackend)
            pairs = rates(WAYS[name], backend, model, dataset, rounds)
            reference, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(ours / reference for reference, ours in pairs)
            table.add_row(name, WAYS[name].title, each, f"{reference:,.1f}", f"{ours:,.1f}", f"{ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
