"""How far honest and damaged runs of a mini profile are from its fp32 model, beside the official scores.

    python benchmarks/mini_damage.py bert                      # all that can run here, a minute or two
    python benchmarks/mini_damage.py bert --run "noise 10 %"   # only the runs whose names begin so
    python benchmarks/mini_damage.py gptj --samples 16         # only the first samples, without scores
    python benchmarks/mini_damage.py bert --write              # make the reference outputs again

Every run answers the whole data set through the backend's own engine, in batches of 16, on one thread. Damage is done
to the torch module, in fp32: noise is added to every parameter, a share of how widely its tensor's values spread;
weights are rounded to 4 or 8 bits, symmetric, with a scale per tensor or per row; each workload has a fault of its
pipeline besides. The last column says at which precisions the rule `output_difference` sees the run.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import torch
from mini_replies import answers_of, mini_variant, seven_bit_weights
from rich.console import Console
from rich.table import Table

from mlbench import (
    EnginePlan,
    Graph,
    GraphError,
    LoggedReply,
    Metric,
    Precision,
    Samples,
    Variant,
    Workload,
)
from mlbench.conformance.damage import DamagedGraph, noise, to_weights
from mlbench.discovery import Plugins
from mlbench.rules.scoring import output_difference, score
from mlbench.toolkit import write_output_reference

BATCH = 16

EVERY = {"bert": 4, "dlrm-v2": 2, "stable-diffusion-xl": 4}
"""Of which samples the reference is kept: one in so many, where all would take more than 300 kB."""

Change = Callable[[torch.nn.Module], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A way to run a mini profile."""

    name: str
    backend: str = "pytorch"
    precision: Precision = Precision.FP32
    batch: int = BATCH
    change: Change | None = None
    """What is done to the modules of all graphs."""
    seven_bits: bool = False
    """Whether int8 weights get seven bits, as on x86 CPUs without VNNI; there they get no more anyway."""


HONEST = (
    Run(name="pytorch fp32"),
    Run(name="pytorch fp32, one at a time", batch=1),
    *(
        Run(name=f"{backend} {precision}", backend=backend, precision=precision)
        for backend, precision in (
            ("onnxruntime", Precision.FP32),
            ("cpu_amx", Precision.FP32),
            ("pytorch", Precision.FP16),
            ("onnxruntime", Precision.FP16),
            ("pytorch", Precision.BF16),
            ("cpu_amx", Precision.BF16),
            ("onnxruntime", Precision.INT8),
            ("cpu_amx", Precision.INT8),
        )
    ),
    Run(
        name="onnxruntime int8, weights of seven bits", backend="onnxruntime", precision=Precision.INT8, seven_bits=True
    ),
)


def rounded(bits: int, *, per_row: bool) -> Change:
    """Round matrices and kernels to so many bits, with a scale per row or for all."""

    def change(weight: torch.Tensor) -> torch.Tensor:
        if weight.dim() < 2:
            return weight
        rows = weight.flatten(1)
        largest = rows.abs().amax(dim=1, keepdim=True) if per_row else rows.abs().max()
        scale = (largest / (2 ** (bits - 1) - 1)).clamp(min=torch.finfo(torch.float32).tiny)
        changed: torch.Tensor = ((rows / scale).round() * scale).view_as(weight)
        return changed

    return to_weights(change)


def to_inputs(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Change:
    """Return what changes the inputs of every call of a module."""

    def damage(module: torch.nn.Module) -> None:
        module.register_forward_pre_hook(lambda _, inputs: change(inputs))

    return damage


def shift_image(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Move images by a pixel, volumes by a voxel."""
    return (inputs[0].roll(1, -1), *inputs[1:])


def shift_positions(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Let every new token of a language model stand one further; a call with five inputs or more reads a prompt."""
    ids, positions, *rest = inputs
    return (ids, positions + 1, *rest) if ids.dim() == 1 else inputs


FAULTS: Mapping[str, Mapping[str, Change]] = {
    "resnet50": {"images moved by a pixel": to_inputs(shift_image)},
    "retinanet": {"images moved by a pixel": to_inputs(shift_image)},
    "3d-unet": {"volumes moved by a voxel": to_inputs(shift_image)},
    "bert": {"segment ids all zero": to_inputs(lambda inputs: (*inputs[:2], torch.zeros_like(inputs[2])))},
    "dlrm-v2": {
        "two dense features swapped": to_inputs(lambda inputs: (inputs[0][:, [0, 2, 1, *range(3, 13)]], inputs[1])),
        "0.1 added to the dense features": to_inputs(lambda inputs: (inputs[0] + 0.1, inputs[1])),
    },
    "stable-diffusion-xl": {
        "guidance told another time": to_inputs(
            lambda inputs: (inputs[0], inputs[1] + 10, *inputs[2:]) if len(inputs) > 2 else inputs
        )
    },
}

LANGUAGE_FAULTS: Mapping[str, Change] = {"positions off by one while decoding": to_inputs(shift_positions)}


def runs_of(workload: str) -> Iterator[Run]:
    """Yield honest runs first, then damaged ones."""
    yield from HONEST
    for share in (2, 5, 10, 20):
        yield Run(name=f"noise {share} %", change=noise(share / 100))
    for bits, per_row in ((8, True), (4, True), (4, False)):
        scale = "row" if per_row else "tensor"
        yield Run(name=f"{bits}-bit weights, a scale per {scale}", change=rounded(bits, per_row=per_row))
    for name, change in FAULTS.get(workload, LANGUAGE_FAULTS).items():
        yield Run(name=name, change=change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mini:
    """A workload's mini profile, made ready to be run in several ways."""

    workload: Workload
    plugins: Plugins

    @property
    def variant(self) -> Variant:
        """The mini profile with its trained weights."""
        return mini_variant(self.workload)

    def replies(self, run: Run, samples: int = 0) -> list[LoggedReply]:
        """Return the answers to the first samples, 0 for all.

        Raises:
            GraphError: the backend cannot compile a graph at this precision.
            DataError: a sample was given up.
        """
        data = self.workload.dataset(self.variant)
        indices = range(samples or data.count)
        data.load(indices)
        model = self.workload.model(self.variant)
        if change := run.change:
            graphs: Mapping[str, Graph] = {name: DamagedGraph(each, change) for name, each in model.graphs.items()}
            model = dataclasses.replace(model, graphs=graphs)
        backend = self.plugins.backend(run.backend)
        backend = backend.with_options(dataclasses.replace(backend.options, threads=1))
        plan = EnginePlan(precision=run.precision, batch=run.batch, batching="bucketed")
        with seven_bit_weights() if run.seven_bits else nullcontext():
            answers = answers_of(backend, model, plan, Samples(indices, indices, data))
        return [
            LoggedReply(index=index, data=np.asarray(answer).tobytes(), token_count=np.size(answer))
            for index, answer in sorted(answers.items())
        ]

    def metric(self) -> Metric:
        """Return the official metric, with the reference outputs where there are any."""
        metric = self.workload.metric(self.variant, self.workload.dataset(self.variant))
        assert metric
        return metric

    def offers(self, run: Run) -> bool:
        """Return whether the backend can run here at this precision."""
        probe = self.plugins.backend(run.backend).probe()
        return probe.is_available and run.precision in probe.precisions

    def write(self) -> None:
        """Write the outputs of torch in fp32 beside the mini profile's files."""
        package = type(self.workload).__module__.split(".")[0]
        metric = self.metric()
        kept = [each for each in self.replies(HONEST[0]) if each.index % EVERY.get(self.workload.name, 1) == 0]
        outputs = {reply.index: metric.outputs(reply) for reply in kept}
        profile = importlib.import_module(f"{package}.mini_profile").MiniProfile.shipped()
        write_output_reference(profile, outputs, recipe=f"mlbench_recipes.{package.removeprefix('mlbench_')}.recipe")


def row(run: Run, metric: Metric, replies: Sequence[LoggedReply], *, are_all: bool) -> list[str]:
    """Return a line of the table: the required scores, which of them miss, the difference, and who sees it."""
    reference = metric.output_reference
    assert reference
    if are_all:
        accuracy = score(metric, replies, run.precision)
        required = [result for result in accuracy.targets if result.target.required]
        shown = [f"{each.target.score} {each.score:.6g}{'' if each.is_met else ' missed'}" for each in required]
    else:
        shown = ["-"]
    answered = {reply.index for reply in replies}
    outputs = {index: values for index, values in reference.outputs.items() if index in answered}
    part = dataclasses.replace(reference, outputs=outputs)
    value = output_difference(metric, part, replies, run.precision).value
    seen = [precision for precision, bound in reference.bounds.items() if not value <= bound]
    return [run.name, ", ".join(shown), f"{value:.2e}", ", ".join(seen) or "none"]


@click.command()
@click.argument("workload")
@click.option("--run", "prefixes", multiple=True, help="Only runs whose names begin so.")
@click.option("--samples", default=0, help="Only so many samples, without scores; 0: all.")
@click.option("--write", is_flag=True, help="Make the reference outputs again and stop.")
def main(workload: str, prefixes: Sequence[str], samples: int, write: bool) -> None:
    """Print what WORKLOAD's runs score, how far their outputs are from fp32, and where the rule sees them."""
    plugins = Plugins.discover()
    mini = Mini(workload=plugins.workload(workload), plugins=plugins)
    if write:
        mini.write()
        return
    metric = mini.metric()
    reference = metric.output_reference
    if not reference:
        raise click.UsageError(f"{workload} has no reference outputs; make them with --write.")
    bounds = ", ".join(f"{name} {bound:.3g}" for name, bound in reference.bounds.items())
    table = Table(title=f"{workload}: mean difference {reference.unit}; bounds: {bounds}", title_justify="left")
    for heading in ("run", "scores", "difference", "seen at"):
        table.add_column(heading)
    for run in runs_of(workload):
        if not mini.offers(run) or (prefixes and not run.name.startswith(tuple(prefixes))):
            continue
        try:
            table.add_row(*row(run, metric, mini.replies(run, samples), are_all=not samples))
        except GraphError as error:
            table.add_row(run.name, "unsupported", "-", str(error)[:60])
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
