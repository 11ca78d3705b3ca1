"""What the harness costs: bare LoadGen with the least Python SUT, against mlbench over nothing, in one run.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --batch 1 --seconds 0.05 --scenario SingleStream

The bare SUTs answer in the callback, one with a number for each sample, two with nothing, and one runs the workload's
program over the graphs of no cost first, a query at a time: what "graphs of no cost" takes beyond that is the harness's
own in SingleStream. They check nothing. mlbench
keeps account of every sample, checks the form and the numbers of every reply, and hands LoadGen the data: over the null
backend, which answers in the callback too, and over graphs that cost nothing, with the batching, the workers and the
hand-over of replies that a backend has. In Offline replies gather before LoadGen hears of them; one row is without.

"Server, overloaded" sends a million queries a second, and what LoadGen counts as completed is what the way through
queue and threads holds. LoadGen, its binding and a list in Python are the row "bare, collected"; coalesced rows get all
overdue queries in one call. Processor time is the process's, for each sample, from the first query to the last answer.
Rounds alternate, and the median of the rounds' ratios is reported.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest import mock

import click
import mlperf_loadgen
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, EnginePlan, GraphBackend, Model, Precision, Probe, ReplySpec, Samples
from mlbench.contracts.graph import Executable, Graph
from mlbench.contracts.model import BatchProgram
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.discovery import Plugins
from mlbench.execution.engine_choice import engine_of
from mlbench.loadgen import drive as drive_module
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test, loadgen_settings
from mlbench.loadgen.watchdog import ProgressCallbacks

NULL = "mlbench, null backend"
OVERLOADED = "Server, overloaded"
SERVER_QPS, OVERLOAD_QPS = 2_000.0, 1e6
LEAST_OVERLOADED = 64
"""The batch of an engine that is to hold so many is at least this."""
SCENARIOS = {
    "Offline": (OFFLINE, 500_000.0),
    "Server": (SERVER, SERVER_QPS),
    "SingleStream": (SINGLE_STREAM, 0.0),
    OVERLOADED: (SERVER, OVERLOAD_QPS),
}
LOADED = 1024
IMAGE = np.zeros(4, np.float32)


class Nothing(Dataset):
    """One image for all indices."""

    count = performance_count = LOADED
    fingerprint = "nothing"

    def load(self, indices: Sequence[int]) -> None:
        """Load nothing."""

    def unload(self, indices: Sequence[int]) -> None:
        """Unload nothing."""

    def sample(self, index: int) -> np.ndarray:
        """Return the image."""
        return IMAGE


class Label(BatchProgram):
    """Replies as ResNet-50's: one number a sample."""

    reply = ReplySpec(dtype="float32", shape=(1,))

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Choose the largest of ten logits; the null backend never asks."""
        logits = graphs["logits"]({"images": np.stack(samples)})["logits"]
        labels: np.ndarray = logits.argmax(axis=1).astype(np.float32)[:, None]
        return labels


class Free(GraphBackend):
    """Compiles to the same zeros each time."""

    name = "free"

    def __init__(self, batch: int) -> None:
        """Store the most images of a call."""
        self._batch = batch

    def probe(self) -> Probe:
        """Say that it runs anywhere."""
        return Probe(is_available=True)

    def compile(self, graph: object, precision: Precision) -> Executable:
        """Return a function that costs a look-up."""
        kept = {size: {"logits": np.zeros((size, 10), np.float32)} for size in range(1, self._batch + 1)}
        return lambda inputs: kept[len(inputs["images"])]


BARE_GRAPHS = {"logits": Free(1).compile(None, Precision.FP32)}
ANSWER = np.zeros(1, np.float32)


class Logits:
    """What an engine asks of a graph that is never looked at."""

    name = "logits"

    def precision(self, asked: Precision) -> Precision:
        """Return what was asked for."""
        return asked


Run = Callable[[Test, Path], "Measured"]


@dataclass(frozen=True)
class Measured:
    """What LoadGen's log says."""

    rate_per_s: float
    p50_ns: int
    p99_ns: int
    processor_us: float
    """Of the process, for each sample."""


@contextmanager
def timed(moments: list[float]) -> Iterator[None]:
    """Note the processor time before and after."""
    moments.append(time.process_time())
    yield
    moments.append(time.process_time())


Answer = Callable[[list[int]], list[Any]]
"""Makes LoadGen's responses to samples with these ids."""


def empty(ids: list[int]) -> list[Any]:
    """Answer with nothing."""
    return [mlperf_loadgen.QuerySampleResponse(each, 0, 0) for each in ids]


def with_data(ids: list[int]) -> list[Any]:
    """Answer each sample with a number, as any real SUT does."""
    return [mlperf_loadgen.QuerySampleResponse(each, ANSWER.ctypes.data, ANSWER.nbytes) for each in ids]


def with_program(ids: list[int]) -> list[Any]:
    """Answer one sample with what the program makes of it."""
    label = Label().run([IMAGE], BARE_GRAPHS)
    return [mlperf_loadgen.QuerySampleResponse(ids[0], label.ctypes.data, label.nbytes)]


def run_bare(test: Test, folder: Path, *, answer: Answer = empty, together: int = 1) -> Measured:
    """Let LoadGen drive a SUT of a few lines, through its interface that passes plain lists.

    Args:
        test: what LoadGen is asked to do.
        folder: for LoadGen's logs.
        answer: what is answered.
        together: how many samples are answered in one call.
    """
    moments: list[float] = []
    open_ids: list[int] = []

    def flush() -> None:
        mlperf_loadgen.QuerySamplesComplete(answer(open_ids))
        open_ids.clear()

    def issue(ids: list[int], indices: list[int]) -> None:
        open_ids.extend(ids)
        if len(open_ids) >= together:
            flush()

    sut = mlperf_loadgen.ConstructFastSUT(issue, flush if together > 1 else lambda: None)
    note = lambda indices: moments.append(time.process_time())  # noqa: E731
    qsl = mlperf_loadgen.ConstructQSL(LOADED, LOADED, note, note)
    log = mlperf_loadgen.LogSettings()
    log.enable_trace = False
    output = mlperf_loadgen.LogOutputSettings()
    output.outdir = str(folder)
    log.log_output = output
    mlperf_loadgen.StartTestWithLogSettings(sut, qsl, loadgen_settings(test, LOADED), log, "no audit file")
    mlperf_loadgen.DestroyQSL(qsl)
    mlperf_loadgen.DestroyFastSUT(sut)
    return measured(test.scenario, folder, moments)


def run_mlbench(test: Test, folder: Path, *, workers: int = 0, batch: int = 8, gather: bool = True) -> Measured:
    """Let LoadGen drive an engine through mlbench's SUT.

    Args:
        test: what LoadGen is asked to do.
        folder: for LoadGen's logs.
        workers: of an engine over graphs that cost nothing; 0: the null backend's engine.
        batch: of that engine.
        gather: whether replies of an Offline query go to LoadGen together.
    """
    graphs = {"logits": cast(Graph, Logits())}
    model = Model(name="nothing", graphs=graphs, program=Label(), weights_fingerprint="none")
    moments: list[float] = []
    plan = EnginePlan(batching=test.scenario.settings["execution.batching"], batch=batch, workers=max(1, workers))
    backend = Free(batch) if workers else Plugins.discover().backend("null")
    gather_s = drive_module._GATHER_S if gather else 0
    with engine_of(backend, model, plan) as engine, mock.patch.object(drive_module, "_GATHER_S", gather_s):
        engine.warm_up(Samples([0], [0], Nothing()))
        traffic = drive(test, engine, Nothing(), folder, ProgressCallbacks(), section=timed(moments))
    assert not traffic.faults, traffic.faults
    return measured(test.scenario, folder, moments)


def measured(scenario: Scenario, folder: Path, moments: Sequence[float]) -> Measured:
    """Read the rate and the 99th percentile latency of a test."""
    values = read_detail(folder / "mlperf_log_detail.txt").values
    keys = {
        "Offline": "result_samples_per_second",
        "Server": "result_completed_samples_per_sec",
        "SingleStream": "result_qps_with_loadgen_overhead",
    }
    samples = values["result_query_count"] * values["generated_samples_per_query"]
    return Measured(
        rate_per_s=values[keys[scenario.name]],
        p50_ns=values["result_50.00_percentile_latency_ns"],
        p99_ns=values["result_99.00_percentile_latency_ns"],
        processor_us=(moments[1] - moments[0]) * 1e6 / samples,
    )


def test_of(scenario: Scenario, qps: float, seconds: float) -> Test:
    """Return a performance test of about that long; in overload, that sends for a tenth of it."""
    load = LoadSettings(
        min_duration_ms=int(seconds * 1000 * (0.1 if qps == OVERLOAD_QPS else 1)),
        min_query_count=1000,
        performance_sample_count=LOADED,
        target_qps=qps,
        expected_latency_ns=2_000,
        coalesce_queries=False,
        reply_checks=256,
    )
    return Test(
        scenario=scenario,
        mode=Mode.PERFORMANCE,
        load=load,
        reply=Label.reply,
        seeds=Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4),
        server_latency_ms=1000,
    )


def coalesced(run: Run) -> Run:
    """Return a run whose overdue queries come in one call."""
    return lambda test, folder: run(replace(test, load=replace(test.load, coalesce_queries=True)), folder)


def runs_of(name: str, batch: int) -> Mapping[str, Run]:
    """Return what is run in a scenario, by its name in the table."""
    batch = max(batch, LEAST_OVERLOADED) if name == OVERLOADED else batch
    one, two = (partial(run_mlbench, workers=workers, batch=batch) for workers in (1, 2))
    ours: dict[str, Run] = {NULL: run_mlbench, "graphs of no cost, 1 worker": one, "graphs of no cost, 2 workers": two}
    if name == OVERLOADED:
        both = {"bare, collected": partial(run_bare, together=batch)} | ours
        return both | {f"{name}, coalesced": coalesced(run) for name, run in both.items()}
    more: dict[str, Run] = {}
    if name == "Offline":
        more = {"2 workers, replies one by one": partial(two, gather=False)}
    elif name == "SingleStream":
        more = {"bare, with the program": partial(run_bare, answer=with_program)}
    bare: dict[str, Run] = {"bare, with data": partial(run_bare, answer=with_data), "bare, empty replies": run_bare}
    return bare | ours | more


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Of each test.")
@click.option("--batch", default=8, show_default=True, help="Of the engines over graphs that cost nothing.")
@click.option("--scenario", "wanted", type=click.Choice([*SCENARIOS]), multiple=True, default=[*SCENARIOS])
def main(rounds: int, seconds: float, batch: int, wanted: tuple[str, ...]) -> None:
    """Print rates, their ratio, and the latency that the harness adds in Server."""
    table = Table(title=f"harness overhead, median of {rounds} rounds")
    for heading in ("scenario", "SUT", "samples/s", "processor", "null / this one", "p50", "p99", "p99 null adds"):
        table.add_column(heading, justify="right" if heading != "SUT" else "left")
    for name in wanted:
        runs = runs_of(name, batch)
        found: dict[str, list[Measured]] = {each: [] for each in runs}
        for _ in range(rounds):
            for each, measurements in found.items():
                with tempfile.TemporaryDirectory() as folder:
                    measurements.append(runs[each](test_of(*SCENARIOS[name], seconds), Path(folder)))
        for each, measurements in found.items():
            table.add_row(name, each, *cells(measurements, found[NULL], is_timed=name not in ("Offline", OVERLOADED)))
    Console(width=130).print(table)


def cells(measurements: Sequence[Measured], null: Sequence[Measured], *, is_timed: bool) -> Sequence[str]:
    """Return the numbers of a row; latencies say nothing where all samples come at once, or too many."""
    pairs = list(zip(null, measurements, strict=True))
    rates = [f"{statistics.median(each.rate_per_s for each in measurements):,.0f}"]
    rates.append(f"{statistics.median(each.processor_us for each in measurements):,.2f} us")
    rates.append(f"{statistics.median(zero.rate_per_s / each.rate_per_s for zero, each in pairs):.2f}")
    if not is_timed:
        return [*rates, "-", "-", "-"]
    p50, p99 = (statistics.median(getattr(each, name) for each in measurements) / 1e3 for name in ("p50_ns", "p99_ns"))
    added = statistics.median(zero.p99_ns - each.p99_ns for zero, each in pairs) / 1e3
    return [*rates, f"{p50:,.1f} us", f"{p99:,.1f} us", f"{added:+,.1f} us"]


if __name__ == "__main__":
    main()
