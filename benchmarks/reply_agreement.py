"""How far batching moves replies, how far a metric lets them move, and which damage passes for batching, in one run.

    python benchmarks/reply_agreement.py resnet50
    python benchmarks/reply_agreement.py bert --backend onnxruntime --precision int8 --samples 96

The same samples of the mini profile are answered several times by one backend at one precision: in batches of 16, one
at a time, in batches of 7 with other neighbours, with two threads. The differences from the first are the workload's
own (`Metric.difference`); the limits are those that the verdict holds the performance run to. ``--against
onnxruntime:fp32`` adds another runtime, all of whose kernels sum up in another order, which is more than another
processor changes between two runs on itself; so does an older instruction set, by ONEDNN_MAX_CPU_ISA=SSE41 and
ATEN_CPU_CAPABILITY=default, but for the whole table.

Then the first way is gone again with damage: noise on all weights, each multiplied by 1 + size * normal; images moved
by a pixel; answers of tokens cut short. The largest size that passes, of 1, 2, 5, 10, ... in 10,000, is sought by
halving.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from mini_replies import answers_of, mini_variant, seven_bit_weights
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, EnginePlan, Graph, GraphBackend, Metric, Model, Precision, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.metric import DifferenceLimits, LoggedReply
from mlbench.contracts.wrapped import WrappedDataset, WrappedGraph
from mlbench.discovery import Plugins
from mlbench.rules.scoring import Agreement, agreement

if TYPE_CHECKING:
    from pathlib import Path

    import torch

BATCH, ODD_BATCH = 16, 7

NOISE = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)

IMAGES = ("resnet50", "retinanet", "3d-unet")
"""Workloads whose samples are pixels, or hold them, with the columns last."""

Change = Callable[[Any], Any]
Show = Callable[[str, Agreement], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How samples are fed."""

    batch: int = BATCH
    order_seed: int | None = None
    """Shuffles the samples; None: in the order of the data set."""
    threads: int = 1


WAYS: Mapping[str, Way] = {
    "one at a time": Way(batch=1),
    f"batches of {ODD_BATCH}, other neighbours": Way(batch=ODD_BATCH, order_seed=1),
    "other neighbours": Way(order_seed=2),
    "two threads": Way(threads=2),
}


class ChangedSamples(WrappedDataset):
    """A data set whose samples are changed as they are asked for."""

    def __init__(self, dataset: Dataset, change: Change) -> None:
        super().__init__(dataset)
        self._change = change

    def sample(self, index: int) -> Any:
        """Return the changed sample."""
        return self._change(self.wrapped.sample(index))


class NoisyGraph(WrappedGraph):
    """A graph with noise on all its weights, the same each time."""

    is_used_once = True

    def __init__(self, graph: Graph, size: float) -> None:
        super().__init__(graph)
        self._size = size

    def module(self) -> torch.nn.Module:
        """Return the module; what it shares with another graph's is changed once."""
        import torch

        module = self.wrapped.module()
        with torch.no_grad():
            for name, weights in module.named_parameters():
                if not getattr(weights, "is_noisy", False):
                    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                    weights.mul_(1 + self._size * torch.randn(weights.shape, generator=generator))
                    weights.is_noisy = True  # type: ignore[attr-defined]
        return module

    def onnx(self) -> Path:
        """Export the noisy module."""
        from mlbench.execution.export.onnx_export import export_onnx

        return export_onnx(self)

    @property
    def fingerprint(self) -> str:
        """A hash of the graph's and the noise."""
        return f"{self.wrapped.fingerprint}-noise-{self._size:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A mini profile on a backend, at one precision."""

    backend: GraphBackend
    precision: Precision
    model: Model
    dataset: Dataset
    metric: Metric
    indices: Sequence[int]

    @classmethod
    def of(cls, workload_name: str, backend_name: str, precision: Precision, count: int) -> Bench:
        """Open the first ``count`` samples of a mini profile."""
        workload = Plugins.discover().workload(workload_name)
        variant = mini_variant(workload)
        dataset = workload.dataset(variant)
        metric = workload.metric(variant, dataset)
        assert metric
        indices = list(range(min(count, dataset.count)))
        dataset.load(indices)
        return cls(
            backend=_graph_backend(backend_name),
            precision=precision,
            model=workload.model(variant),
            dataset=dataset,
            metric=metric,
            indices=indices,
        )

    @property
    def limits(self) -> DifferenceLimits:
        """What the metric allows."""
        return self.metric.difference_limits(self.precision)

    def replies(self, way: Way) -> list[LoggedReply]:
        """Return the answers to all samples, in the order of the data set."""
        backend = self.backend.with_options(dataclasses.replace(self.backend.options, threads=way.threads))
        order = list(self.indices)
        if way.order_seed is not None:
            np.random.default_rng(way.order_seed).shuffle(order)
        is_generation = isinstance(self.model.program, GenerationProgram)
        plan = EnginePlan(
            precision=self.precision, batching="in_flight" if is_generation else "inline", batch=way.batch
        )
        answers = answers_of(backend, self.model, plan, Samples(order, order, self.dataset))
        dtype = np.dtype(self.model.program.reply.dtype).newbyteorder("<")
        return [
            LoggedReply(index=index, data=np.asarray(answers[index]).astype(dtype).tobytes()) for index in self.indices
        ]

    def with_noise(self, size: float) -> Bench:
        """Return the same with noise on all weights."""
        graphs = {name: NoisyGraph(graph, size) for name, graph in self.model.graphs.items()}
        return dataclasses.replace(self, model=dataclasses.replace(self.model, graphs=graphs))

    def on(self, backend_name: str, precision: Precision) -> Bench:
        """Return the same on another backend, or at another precision."""
        return dataclasses.replace(self, backend=_graph_backend(backend_name), precision=precision)

    def with_moved_images(self) -> Bench:
        """Return the same with all images moved by a pixel to the right."""
        return dataclasses.replace(self, dataset=ChangedSamples(self.dataset, move))

    def compare(self, replies: Sequence[LoggedReply], reference: Sequence[LoggedReply]) -> Agreement:
        """Hold replies against others as the verdict does."""
        return agreement(self.metric, replies, reference, self.precision)


def _graph_backend(name: str) -> GraphBackend:
    backend = Plugins.discover().backend(name)
    assert isinstance(backend, GraphBackend)
    return backend


def move(sample: Any) -> Any:
    """Return an image moved by a pixel to the right, or what holds one with it moved."""
    if isinstance(sample, np.ndarray):
        return np.roll(sample, 1, axis=-1)
    return dataclasses.replace(sample, pixels=np.roll(sample.pixels, 1, axis=-1))


def is_passed(found: Agreement) -> bool:
    """Return whether the verdict would pass."""
    from mlbench.rules.quality import LEAST_AGREEMENT

    return len(found.differing) <= (1 - LEAST_AGREEMENT) * found.checked and found.mean <= found.limits.mean


def show_noise(bench: Bench, reference: Sequence[LoggedReply], sizes: Sequence[float], show: Show) -> None:
    """Show noise of these sizes; without any, of those between the largest that passes and the smallest that fails."""

    def shown(size: float) -> Agreement:
        found = bench.compare(bench.with_noise(size).replies(Way()), reference)
        show(f"noise of {size:.2%} on all weights", found)
        return found

    for size in sizes:
        shown(size)
    low, high = (-1, len(NOISE)) if not sizes else (0, 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_passed(shown(NOISE[middle])) else (low, middle)


def show_faults(bench: Bench, reference: Sequence[LoggedReply], show: Show, *, has_images: bool) -> None:
    """Show moved images, and answers of tokens cut short."""
    if has_images:
        show("images moved by a pixel", bench.compare(bench.with_moved_images().replies(Way()), reference))
    if isinstance(bench.model.program, GenerationProgram):
        for share in (0.95, 0.9, 0.75):
            show(f"answers cut to {share:.0%}", bench.compare(shorten(reference, share), reference))


def shorten(replies: Sequence[LoggedReply], share: float) -> list[LoggedReply]:
    """Return answers of tokens cut to a share of their length."""
    return [dataclasses.replace(reply, data=reply.data[: 8 * round(share * len(reply.data) / 8)]) for reply in replies]


@click.command()
@click.argument("workload")
@click.option("--backend", default="pytorch", show_default=True)
@click.option("--precision", type=click.Choice(Precision.KNOWN), default="fp32", show_default=True)
@click.option("--samples", default=64, show_default=True)
@click.option("--against", multiple=True, help="BACKEND:PRECISION whose replies are compared, too.")
@click.option("--noise", type=float, multiple=True, help="A size to try; the largest that passes is sought without.")
@click.option("--damage/--no-damage", default=True, show_default=True, help="Whether to look for damage that passes.")
@click.option("--seven-bits", is_flag=True, help="Give int8 weights seven bits, as x86 CPUs without VNNI do.")
def main(  # noqa: PLR0913, PLR0917 - one per option
    workload: str,
    backend: str,
    precision: str,
    samples: int,
    against: Sequence[str],
    noise: Sequence[float],
    damage: bool,
    seven_bits: bool,
) -> None:
    """Print how far replies of WORKLOAD's mini profile move, batched in other ways and damaged."""
    bench = Bench.of(workload, backend, Precision(precision), samples)
    table = Table(title=f"{workload}, {backend} {precision}, {len(bench.indices)} samples: differences of replies")
    for heading in ("from batches of 16 to", "mean", "limit", "largest", "limit", "beyond it", "verdict"):
        table.add_column(heading)

    def show(name: str, found: Agreement) -> None:
        numbers = (found.mean, found.limits.mean, found.largest, found.limits.one)
        verdict = "passes" if is_passed(found) else "fails"
        table.add_row(name, *(f"{number:.2g}" for number in numbers), f"{len(found.differing)}", verdict)

    with seven_bit_weights() if seven_bits else nullcontext():
        reference = bench.replies(Way())
        for name, way in WAYS.items():
            show(name, bench.compare(bench.replies(way), reference))
        for other in against:
            name, _, number_format = other.partition(":")
            show(other, bench.compare(bench.on(name, Precision(number_format)).replies(Way()), reference))
        if damage:
            show_noise(bench, reference, noise, show)
            show_faults(bench, reference, show, has_images=workload in IMAGES)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
