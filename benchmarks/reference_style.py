"""mlbench in Offline against the way the reference applications run a workload, in one run.

    python benchmarks/reference_style.py
    python benchmarks/reference_style.py --workload gptj --samples 16

This is a model of the reference applications, not these: a bare loop without LoadGen over the same weights, with the
same threads, the applications' default batch, padding and work of the host. Batch workloads call graphs that mlbench's
backend compiled, so what an application's own runtime does worse or better than that is left out; language models call
Hugging Face's ``generate``, as the applications do. A pair of workload and backend for which there is no application is
not in the table. Rounds alternate, and the median of the rounds' ratios is reported.

Source of the ways and batches: MLPerf Inference v4.1, the reference application of each workload.
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

from mlbench import (
    DECODE,
    Dataset,
    Dim,
    EnginePlan,
    Executable,
    GenerationProgram,
    GraphBackend,
    Model,
    Profile,
    Prompt,
    Samples,
    Variant,
    Weights,
)
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.toolkit import host_array, pad_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a reference application runs samples, a part of them at a time."""

    title: str
    batches: Mapping[str, int]
    """Samples in a part, by the backend on which there is a reference application."""
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


def by_generate(model: Model, samples: Sequence[Prompt], graphs: Mapping[str, Any]) -> object:
    """Answer one prompt by Hugging Face's ``generate``."""
    assert isinstance(model.program, GenerationProgram)
    decoding, (prompt,) = model.program.decoding, samples
    end = decoding.end_tokens[0]
    ids = torch.from_numpy(prompt.tokens)[None]
    with torch.inference_mode():
        return graphs[NETWORK].generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            num_beams=decoding.beams,
            early_stopping=decoding.beams > 1,
            min_new_tokens=decoding.min_new_tokens,
            max_new_tokens=decoding.max_new_tokens,
            pad_token_id=end,
            eos_token_id=end,
        )


def network_of(model: Model) -> Any:
    """Return a language model as Hugging Face has it, with the attention that it has there."""
    network: Any = model.graphs[DECODE].module().network
    network.set_attn_implementation("sdpa" if network._supports_sdpa else "eager")
    return network


NETWORK = "network"
"""Beside compiled graphs: a language model's network as Hugging Face has it."""
BOTH = {"pytorch": 1, "onnxruntime": 1}
WAYS = {
    "resnet50": Way(title="images as they come", batches={"onnxruntime": 32}, run=in_one_call),
    "retinanet": Way(title="images as they come", batches={"pytorch": 32, "onnxruntime": 1}, run=in_one_call),
    "3d-unet": Way(title="one volume, window by window", batches=BOTH, ours=2, run=window_by_window),
    "bert": Way(title="one question, padded to the longest", batches=BOTH, run=padded_to_the_longest),
    "dlrm-v2": Way(title="one sample, labels paired row by row", batches={"pytorch": 1}, run=paired_with_labels),
    "stable-diffusion-xl": Way(title="one prompt", batches={"pytorch": 1}, ours=16, run=in_one_call),
    "gptj": Way(title="one article, generate with beams", batches={"pytorch": 1}, run=by_generate),
    "llama2-70b": Way(title="one prompt, generate", batches={"pytorch": 1}, run=by_generate),
    "mixtral-8x7b": Way(title="one prompt, generate", batches={"pytorch": 1}, run=by_generate),
}


def reference_rate(way: Way, batch: int, model: Model, graphs: Mapping[str, Executable], data: Sequence[Any]) -> float:
    """Return samples per second of a bare loop over samples, in their order."""
    started = time.perf_counter()
    for start in range(0, len(data), batch):
        way.run(model, data[start : start + batch], graphs)
    return len(data) / (time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Timing:
    """How much is timed."""

    rounds: int
    samples: int
    """Of the reference's way at most, spread over the dataset."""


def rates(way: Way, backend: GraphBackend, model: Model, dataset: Dataset, timing: Timing) -> list[tuple[float, float]]:
    """Return (reference, mlbench) rates, a pair per round."""
    indices = list(range(dataset.count))
    dataset.load(indices)
    samples = Samples(indices, indices, dataset)
    is_language = isinstance(model.program, GenerationProgram)
    plan = EnginePlan(batching="bucketed", batch=way.ours, workers=1 if is_language else 2)  # as their tuning says
    graphs: Mapping[str, Any] = (
        {NETWORK: network_of(model)}
        if is_language
        else {name: backend.compile(graph, plan.precision) for name, graph in model.graphs.items()}
    )
    batch, step = way.batches[backend.name], max(1, dataset.count // timing.samples)
    data, found = samples.data()[::step], []
    with engine_of(backend, model, plan) as engine:
        engine.warm_up(samples)
        reference_rate(way, batch, model, graphs, data[: 2 * batch])
        for _ in range(timing.rounds):
            reference = reference_rate(way, batch, model, graphs, data)
            found.append((reference, mlbench_rate(model, engine, dataset)))
            dataset.load(indices)  # LoadGen unloaded them
    return found


@click.command()
@click.option("--rounds", default=7, show_default=True)
@click.option("--workload", "workloads", multiple=True, type=click.Choice(list(WAYS)), default=tuple(WAYS))
@click.option("--backend", "backends", multiple=True, default=("pytorch", "onnxruntime"), show_default=True)
@click.option(
    "--samples", "most", default=1_000, show_default=True, help="Most that the reference's way is timed with."
)
def main(rounds: int, workloads: Sequence[str], backends: Sequence[str], most: int) -> None:
    """Print both rates and their ratio for each workload and backend."""
    plugins = Plugins.discover()
    table = Table(title=f"Offline, mini, fp32: median of {rounds} rounds")
    for heading in (
        "workload",
        "the reference's way",
        "batch",
        "backend",
        "it, samples/s",
        "mlbench, samples/s",
        "ratio",
    ):
        table.add_column(heading)
    for name in workloads:
        workload = plugins.workload(name)
        variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
        model, dataset = workload.model(variant), workload.dataset(variant)
        for each in (each for each in backends if each in WAYS[name].batches):
            backend = plugins.backend(each)
            assert isinstance(backend, GraphBackend)
            pairs = rates(WAYS[name], backend, model, dataset, Timing(rounds, most))
            reference, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(ours / reference for reference, ours in pairs)
            way, batch = WAYS[name].title, str(WAYS[name].batches[each])
            table.add_row(name, way, batch, each, f"{reference:,.1f}", f"{ours:,.1f}", f"{ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
