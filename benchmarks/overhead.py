"""What the harness costs: bare LoadGen with the least Python SUT, against mlbench's null backend, in one run.

    python benchmarks/overhead.py

The bare SUTs answer in the callback, one with a number for each sample, two with nothing; they check nothing. mlbench
keeps account of every sample, checks the form and the numbers of every reply, and hands LoadGen the data. Rounds
alternate, and the median of the rounds' ratios is reported.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import mlperf_loadgen
import numpy as np
from rich.console import Console
from rich.table import Table

from mlbench import Dataset, EnginePlan, Model, ReplySpec, Samples
from mlbench.contracts.model import BatchProgram
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.discovery import Plugins
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Seeds, Test, loadgen_settings
from mlbench.loadgen.watchdog import NoSigns

SERVER_QPS = 10_000.0
LOADED = 1024


class Nothing(Dataset):
    """Indices without samples."""

    count = performance_count = LOADED
    fingerprint = "nothing"

    def load(self, indices: Sequence[int]) -> None:
        """Load nothing."""

    def unload(self, indices: Sequence[int]) -> None:
        """Unload nothing."""

    def sample(self, index: int) -> None:
        """Return nothing."""


class Label(BatchProgram):
    """Replies as ResNet-50's: one number a sample."""

    reply = ReplySpec(dtype="float32", shape=(1,))

    def run(self, samples: Sequence[object], graphs: object) -> Sequence[object]:  # type: ignore[override]
        """Never called: the null backend computes nothing."""
        raise NotImplementedError


@dataclass(frozen=True)
class Measured:
    """What LoadGen's log says."""

    rate_per_s: float
    p99_ns: int


def run_bare(test: Test, folder: Path, *, with_data: bool = False, fast: bool = False) -> Measured:
    """Let LoadGen drive a SUT of a few lines.

    Args:
        test: what LoadGen is asked to do.
        folder: for LoadGen's logs.
        with_data: answer each sample with a number, as any real SUT does; else with nothing.
        fast: through the interface that passes plain lists.
    """
    answer = np.zeros(1, np.float32)

    def issue(query: list[mlperf_loadgen.QuerySample]) -> None:
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0) for sample in query])

    def issue_with_data(query: list[mlperf_loadgen.QuerySample]) -> None:
        mlperf_loadgen.QuerySamplesComplete(
            [mlperf_loadgen.QuerySampleResponse(sample.id, answer.ctypes.data, answer.nbytes) for sample in query]
        )

    def issue_fast(ids: list[int], indices: list[int]) -> None:
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(i, 0, 0) for i in ids])

    construct, destroy = (
        (mlperf_loadgen.ConstructFastSUT, mlperf_loadgen.DestroyFastSUT)
        if fast
        else (mlperf_loadgen.ConstructSUT, mlperf_loadgen.DestroySUT)
    )
    sut = construct(issue_fast if fast else issue_with_data if with_data else issue, lambda: None)
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


def run_mlbench(test: Test, folder: Path) -> Measured:
    """Let LoadGen drive the null backend through mlbench's SUT."""
    model = Model(name="nothing", graphs={}, program=Label(), weights_fingerprint="none")
    plan = EnginePlan(batching=str(test.scenario.settings["execution.batching"]))
    with Plugins.discover().backend("null").engine(model, plan) as engine:
        engine.warm_up(Samples([0], [0], Nothing()))
        traffic = drive(test, engine, Nothing(), folder, NoSigns())
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
    return Measured(rate_per_s=values[keys[scenario.name]], p99_ns=values["result_99.00_percentile_latency_ns"])


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
def main(rounds: int, seconds: float) -> None:
    """Print rates, their ratio, and the latency that the harness adds in Server."""
    runs: dict[str, Callable[[Test, Path], Measured]] = {
        "bare, with data": lambda test, folder: run_bare(test, folder, with_data=True),
        "bare, empty replies": run_bare,
        "bare, empty, fast interface": lambda test, folder: run_bare(test, folder, fast=True),
        "mlbench": run_mlbench,
    }
    table = Table(title=f"harness overhead, median of {rounds} rounds")
    for heading in ("scenario", "SUT", "samples/s", "p99", "mlbench / this one", "p99 mlbench adds"):
        table.add_column(heading, justify="right" if heading != "SUT" else "left")
    for scenario in (OFFLINE, SERVER, SINGLE_STREAM):
        found: dict[str, list[Measured]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                with tempfile.TemporaryDirectory() as folder:
                    found[name].append(run(test_of(scenario, seconds), Path(folder)))
        for name, each in found.items():
            ratio = statistics.median(
                ours.rate_per_s / its.rate_per_s for ours, its in zip(found["mlbench"], each, strict=True)
            )
            added_ns = statistics.median(
                ours.p99_ns - its.p99_ns for ours, its in zip(found["mlbench"], each, strict=True)
            )
            table.add_row(
                scenario.name,
                name,
                f"{statistics.median(one.rate_per_s for one in each):,.0f}",
                f"{statistics.median(one.p99_ns for one in each) / 1e3:,.1f} us" if scenario is not OFFLINE else "-",
                f"{ratio:.2f}",
                f"{added_ns / 1e3:+,.1f} us" if scenario is not OFFLINE else "-",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
