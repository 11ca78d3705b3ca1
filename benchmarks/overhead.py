"""What the harness costs: bare LoadGen with the least Python SUT, against mlbench over nothing, in one run.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --batch 1 --seconds 0.05

The bare SUTs answer in the callback, one with a number for each sample, two with nothing, and one runs the workload's
program over the graphs of no cost first, a query at a time: what "graphs of no cost" takes beyond that is the harness's
own in SingleStream. They check nothing. mlbench
keeps account of every sample, checks the form and the numbers of every reply, and hands LoadGen the data: over the null
backend, which answers in the callback too, and over graphs that cost nothing, with the batching, the workers and the
hand-over of replies that a backend has. In Offline replies gather before LoadGen hears of them; one row is without.
Rounds alternate, and the median of the rounds' ratios is reported.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast
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
PROGRAM = "bare, with the program"
ONE_BY_ONE = "2 workers, replies one by one"
SERVER_QPS = 2_000.0
LOADED = 1024
IMAGE = np.zeros((3, 32, 32), np.float32)


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
        """Choose the largest of a thousand logits; the null backend never asks."""
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
        kept = {size: {"logits": np.zeros((size, 1000), np.float32)} for size in range(1, self._batch + 1)}
        return lambda inputs: kept[len(inputs["images"])]


class Logits:
    """What an engine asks of a graph that is never looked at."""

    name = "logits"

    def precision(self, asked: Precision) -> Precision:
        """Return what was asked for."""
        return asked


@dataclass(frozen=True)
class Measured:
    """What LoadGen's log says."""

    rate_per_s: float
    p50_ns: int
    p99_ns: int


def run_bare(
    test: Test, folder: Path, *, with_data: bool = False, fast: bool = False, with_program: bool = False
) -> Measured:
    """Let LoadGen drive a SUT of a few lines.

    Args:
        test: what LoadGen is asked to do.
        folder: for LoadGen's logs.
        with_data: answer each sample with a number, as any real SUT does; else with nothing.
        fast: through the interface that passes plain lists.
        with_program: answer each sample with what the program makes of it.
    """
    program, graphs = Label(), {"logits": Free(1).compile(None, Precision.FP32)}
    answer = np.zeros(1, np.float32)

    def issue(query: list[mlperf_loadgen.QuerySample]) -> None:
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0) for sample in query])

    def issue_with_data(query: list[mlperf_loadgen.QuerySample]) -> None:
        mlperf_loadgen.QuerySamplesComplete(
            [mlperf_loadgen.QuerySampleResponse(sample.id, answer.ctypes.data, answer.nbytes) for sample in query]
        )

    def issue_with_program(query: list[mlperf_loadgen.QuerySample]) -> None:
        for sample in query:
            label = program.run([IMAGE], graphs)
            response = mlperf_loadgen.QuerySampleResponse(sample.id, label.ctypes.data, label.nbytes)
            mlperf_loadgen.QuerySamplesComplete([response])

    def issue_fast(ids: list[int], indices: list[int]) -> None:
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(i, 0, 0) for i in ids])

    construct, destroy = (
        (mlperf_loadgen.ConstructFastSUT, mlperf_loadgen.DestroyFastSUT)
        if fast
        else (mlperf_loadgen.ConstructSUT, mlperf_loadgen.DestroySUT)
    )
    plain = issue_with_program if with_program else issue_with_data if with_data else issue
    sut = construct(issue_fast if fast else plain, lambda: None)
    qsl = mlperf_loadgen.ConstructQSL(LOADED, LOADED, lambda indices: None, lambda indices: None)
    log = mlperf_loadgen.LogSettings()
    log.enable_trace = False
    output = mlperf_loadgen.LogOutputSettings()
    output.outdir = str(folder)
    log.log_output = output
    mlperf_loadgen.StartTestWithLogSettings(sut, qsl, loadgen_settings(test, LOADED), log, "no audit file")
    mlperf_loadgen.DestroyQSL(qsl)
    destroy(sut)
    return measured(test.scenario, folder)


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
    plan = EnginePlan(batching=test.scenario.settings["execution.batching"], batch=batch, workers=max(1, workers))
    backend = Free(batch) if workers else Plugins.discover().backend("null")
    gather_s = drive_module._GATHER_S if gather else 0
    with engine_of(backend, model, plan) as engine, mock.patch.object(drive_module, "_GATHER_S", gather_s):
        engine.warm_up(Samples([0], [0], Nothing()))
        traffic = drive(test, engine, Nothing(), folder, ProgressCallbacks())
    assert not traffic.faults, traffic.faults
    return measured(test.scenario, folder)


def measured(scenario: Scenario, folder: Path) -> Measured:
    """Read the rate and the 99th percentile latency of a test."""
    values = read_detail(folder / "mlperf_log_detail.txt").values
    keys = {
        "Offline": "result_samples_per_second",
        "Server": "result_completed_samples_per_sec",
        "SingleStream": "result_qps_with_loadgen_overhead",
    }
    return Measured(
        rate_per_s=values[keys[scenario.name]],
        p50_ns=values["result_50.00_percentile_latency_ns"],
        p99_ns=values["result_99.00_percentile_latency_ns"],
    )


def _left_out(scenario: Scenario) -> tuple[str, ...]:
    """Return what says nothing there: replies one by one outside Offline, the program outside SingleStream."""
    return (*([] if scenario is OFFLINE else [ONE_BY_ONE]), *([] if scenario is SINGLE_STREAM else [PROGRAM]))


def test_of(scenario: Scenario, seconds: float) -> Test:
    """Return a performance test of about that long."""
    milliseconds = int(seconds * 1000)
    offered = {"Offline": 500_000.0, "Server": SERVER_QPS}.get(scenario.name, 0.0)
    load = LoadSettings(
        min_duration_ms=milliseconds,
        min_query_count=1000,
        performance_sample_count=LOADED,
        target_qps=offered,
        expected_latency_ns=2_000,
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


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Of each test.")
@click.option("--batch", default=8, show_default=True, help="Of the engines over graphs that cost nothing.")
def main(rounds: int, seconds: float, batch: int) -> None:
    """Print rates, their ratio, and the latency that the harness adds in Server."""
    runs: dict[str, Callable[[Test, Path], Measured]] = {
        "bare, with data": lambda test, folder: run_bare(test, folder, with_data=True),
        "bare, empty replies": run_bare,
        PROGRAM: lambda test, folder: run_bare(test, folder, with_program=True),
        "bare, empty, fast interface": lambda test, folder: run_bare(test, folder, fast=True),
        NULL: run_mlbench,
        "graphs of no cost, 1 worker": partial(run_mlbench, workers=1, batch=batch),
        "graphs of no cost, 2 workers": partial(run_mlbench, workers=2, batch=batch),
        ONE_BY_ONE: partial(run_mlbench, workers=2, batch=batch, gather=False),
    }
    table = Table(title=f"harness overhead, median of {rounds} rounds")
    for heading in ("scenario", "SUT", "samples/s", "p99", "null / this one", "p50", "p99 null adds"):
        table.add_column(heading, justify="right" if heading != "SUT" else "left")
    for scenario in (OFFLINE, SERVER, SINGLE_STREAM):
        found: dict[str, list[Measured]] = {name: [] for name in runs if name not in _left_out(scenario)}
        for _ in range(rounds):
            for name, each in found.items():
                with tempfile.TemporaryDirectory() as folder:
                    each.append(runs[name](test_of(scenario, seconds), Path(folder)))
        for name, each in found.items():
            ratio = statistics.median(
                ours.rate_per_s / its.rate_per_s for ours, its in zip(found[NULL], each, strict=True)
            )
            added_ns = statistics.median(ours.p99_ns - its.p99_ns for ours, its in zip(found[NULL], each, strict=True))
            table.add_row(
                scenario.name,
                name,
                f"{statistics.median(one.rate_per_s for one in each):,.0f}",
                f"{statistics.median(one.p99_ns for one in each) / 1e3:,.1f} us" if scenario is not OFFLINE else "-",
                f"{ratio:.2f}",
                f"{statistics.median(one.p50_ns for one in each) / 1e3:,.1f} us" if scenario is not OFFLINE else "-",
                f"{added_ns / 1e3:+,.1f} us" if scenario is not OFFLINE else "-",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
