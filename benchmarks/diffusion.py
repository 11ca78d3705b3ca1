"""Stable Diffusion XL in Offline against diffusers' own pipeline called in a loop, as the reference does, in one run.

    python benchmarks/diffusion.py

Both sides have the mini profile's weights, the same prompts, steps, guidance and latents, and as many threads. Rounds
alternate, and the median of the rounds' ratios is reported. mlbench's side goes through LoadGen, and its replies are
bytes; diffusers' side ends with its float images. A second table holds the speed of lower precisions beside their
scores.

Source of the way: MLPerf Inference v4.1, text_to_image.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import torch
from mlbench_stable_diffusion_xl.accuracy import CLIP_SCORE, DIGIT_RATE, FID_SCORE
from mlbench_stable_diffusion_xl.mini_profile import GUIDANCE, MiniProfile
from mlbench_stable_diffusion_xl.program import NEGATIVE_PROMPT, STEPS
from offline_rate import batch_program, mlbench_rate
from rich.console import Console
from rich.table import Table

from mlbench import Engine, EnginePlan, GraphBackend, LoggedReply, Model, Precision, Samples, Weights
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of

SCORES = (FID_SCORE, CLIP_SCORE, DIGIT_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What both sides share."""

    profile: MiniProfile
    model: Model
    captions: Sequence[str]
    samples: Samples

    @classmethod
    def of(cls, count: int) -> Bench:
        """Return the first ``count`` captions of the mini profile."""
        profile = MiniProfile.shipped()
        graphs, dataset = profile.graphs(Weights.TRAINED), profile.dataset()
        model = Model(name="sdxl", graphs=graphs, program=profile.program, weights_fingerprint="shipped")
        captions, indices = dataset.captions[:count], list(range(count))
        dataset.count = count
        dataset.load(indices)
        return cls(profile=profile, model=model, captions=captions, samples=Samples(indices, indices, dataset))

    def mlbench_per_s(self, engine: Engine) -> float:
        """Return images per second that LoadGen measures."""
        rate = mlbench_rate(self.model, engine, self.samples.dataset)
        self.samples.dataset.load(self.samples.indices)  # LoadGen unloaded them
        return rate

    def diffusers_per_s(self, pipeline: Any, batch: int) -> float:
        """Return images per second of diffusers' pipeline, called for a batch after the other."""
        start = torch.from_numpy(self.profile.program.constants.start)
        started = time.perf_counter()
        for first in range(0, len(self.captions), batch):
            prompts = list(self.captions[first : first + batch])
            pipeline(
                prompts,
                negative_prompt=[NEGATIVE_PROMPT] * len(prompts),
                num_inference_steps=STEPS,
                guidance_scale=GUIDANCE,
                latents=start.repeat(len(prompts), 1, 1, 1),
                output_type="pt",
            )
        return len(self.captions) / (time.perf_counter() - started)

    def scores(self, backend: GraphBackend, precision: Precision, batch: int) -> Mapping[str, float]:
        """Return FID, CLIP score and digit rate of what a backend paints."""
        graphs = {name: backend.compile(graph, graph.precision(precision)) for name, graph in self.model.graphs.items()}
        program, data = batch_program(self.model), self.samples.data()
        parts = [program.run(data[first : first + batch], graphs) for first in range(0, len(data), batch)]
        images = [image for part in parts for image in part]
        replies = [LoggedReply(index=index, data=image.tobytes()) for index, image in enumerate(images)]
        return self.profile.metric(self.captions, ()).score(replies)


def diffusers_pipeline(profile: MiniProfile) -> Any:
    """Return diffusers' own pipeline over the shipped folder, fp32."""
    from diffusers import StableDiffusionXLPipeline

    warnings.simplefilter("ignore", DeprecationWarning)  # it asks torch for an array in an old way, at every call
    pipeline = StableDiffusionXLPipeline.from_pretrained(profile.files.path, add_watermarker=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(torch.float32)


def ratios(
    bench: Bench, backend: GraphBackend, pipeline: Any, batches: tuple[int, int], rounds: int
) -> tuple[float, ...]:
    """Return the medians of diffusers' rate, mlbench's rate, and their ratio, with these batches of the two."""
    theirs, ours = batches
    found = []
    with engine_of(backend, bench.model, EnginePlan(batching="bucketed", batch=ours)) as engine:
        engine.warm_up(bench.samples)
        bench.diffusers_per_s(pipeline, theirs)
        for _ in range(rounds):
            reference, rate = bench.diffusers_per_s(pipeline, theirs), bench.mlbench_per_s(engine)
            found.append((reference, rate, rate / reference))
    return tuple(statistics.median(column) for column in zip(*found, strict=True))


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--images", default=64, show_default=True, help="Per round.")
@click.option("--best", default=32, show_default=True, help="Images per batch at which mlbench is at its best here.")
def main(rounds: int, images: int, best: int) -> None:
    """Print both rates and their ratio, then speed and scores of each precision in torch."""
    plugins, bench = Plugins.discover(), Bench.of(images)
    pipeline = diffusers_pipeline(bench.profile)
    table = Table(title=f"Offline, mini, fp32, {images} images: median of {rounds} rounds")
    for heading in ("backend", "diffusers, batch", "images/s", "mlbench, batch", "images/s", "ratio"):
        table.add_column(heading)
    for name in ("pytorch", "onnxruntime"):
        backend = plugins.backend(name)
        assert isinstance(backend, GraphBackend)
        for batches in ((1, 1), (16, 16), (1, best)):
            theirs, ours, ratio = ratios(bench, backend, pipeline, batches, rounds)
            table.add_row(name, f"{batches[0]}", f"{theirs:.2f}", f"{batches[1]}", f"{ours:.2f}", f"{ratio:.2f}")
    Console(width=120).print(table)
    Console(width=120).print(precisions(plugins, best))


def precisions(plugins: Plugins, batch: int) -> Table:
    """Return a table of torch's precisions over all captions."""
    bench, backend = Bench.of(MiniProfile.shipped().samples), plugins.backend("pytorch")
    assert isinstance(backend, GraphBackend)
    table = Table(title=f"pytorch, Offline, mini, {len(bench.captions)} images in batches of {batch}")
    for heading in ("precision", "images/s", "FID", "CLIP", "digits, %"):
        table.add_column(heading)
    for precision in (Precision.FP32, Precision.BF16):
        with engine_of(
            backend, bench.model, EnginePlan(precision=precision, batching="bucketed", batch=batch)
        ) as engine:
            engine.warm_up(bench.samples)
            rate = bench.mlbench_per_s(engine)
        scores = bench.scores(backend, precision, batch)
        table.add_row(precision, f"{rate:.2f}", *(f"{scores[each]:.2f}" for each in SCORES))
    return table


if __name__ == "__main__":
    main()
