"""The search of ``mlbench tune`` beside LoadGen's own FindPeakPerformance, both under real LoadGen.

    python benchmarks/find_peak.py [--seconds 10] [--wobble 0.01] [--repeats 20] [--start 100]

The service answers one query after another, log-normal times of 2 ms on average: 500/s at most. It is the null backend
for ``mlbench tune`` and for the repeats; LoadGen's search drives a queue with the same law in this process. Prints for
each the rate found, how long the search took, and how many of the repeats at that rate were valid.
"""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import click
import mlperf_loadgen

SERVICE_MS, SPREAD = 2.0, 0.3
LATENCY_MS = 15
"""ResNet-50's limit in Server."""
LEAST_QUERIES = 838
"""Fewer can show no 99th percentile with LoadGen's early stopping."""
DATASET = 1024

_FOUND = re.compile(r"Found peak performance field: ([\d.]+)")


class Service:
    """A queue that answers one query after another; its speed differs from search to search."""

    def __init__(self, wobble: float) -> None:
        """Choose the speed, and begin to serve."""
        self._mu = math.log(SERVICE_MS * 1e6 / (1 + wobble * random.gauss())) - SPREAD**2 / 2
        self._waiting: SimpleQueue[tuple[int, int]] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def issue(self, samples: Sequence[mlperf_loadgen.QuerySample]) -> None:
        """Take a query's samples."""
        for sample in samples:
            self._waiting.put((sample.id, time.monotonic_ns()))

    def _serve(self) -> None:
        free_ns = 0
        while True:
            sample, came_ns = self._waiting.get()
            free_ns = max(free_ns, came_ns) + round(random.lognormvariate(self._mu, SPREAD))
            if (left_ns := free_ns - time.monotonic_ns()) > 0:
                time.sleep(left_ns / 1e9)
            mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(sample, 0, 0)])


def find_peak(seconds: float, wobble: float, start_per_s: float, folder: Path) -> float:
    """Let LoadGen search from a rate on, and return the one that it finds in queries per second."""
    settings = mlperf_loadgen.TestSettings()
    settings.scenario = mlperf_loadgen.TestScenario.Server
    settings.mode = mlperf_loadgen.TestMode.FindPeakPerformance
    settings.server_target_qps = start_per_s
    settings.server_target_latency_ns = round(LATENCY_MS * 1e6)
    settings.server_target_latency_percentile = 0.99
    settings.min_duration_ms = round(1000 * seconds)
    settings.min_query_count = LEAST_QUERIES
    output, log = mlperf_loadgen.LogOutputSettings(), mlperf_loadgen.LogSettings()
    output.outdir = str(folder)
    log.log_output = output
    log.enable_trace = False
    sut = mlperf_loadgen.ConstructSUT(Service(wobble).issue, lambda: None)
    samples = mlperf_loadgen.ConstructQSL(DATASET, DATASET, lambda _: None, lambda _: None)
    try:
        mlperf_loadgen.StartTestWithLogSettings(sut, samples, settings, log, "")
    finally:
        mlperf_loadgen.DestroyQSL(samples)
        mlperf_loadgen.DestroySUT(sut)
    found = _FOUND.search((folder / "mlperf_log_detail.txt").read_text())
    if not found:
        raise click.ClickException(f"LoadGen found no rate: is {start_per_s:g}/s too much for this machine?")
    return float(found[1])


def mlbench(*words: str) -> str:
    """Run a command on the null backend, and return what it printed."""
    done = subprocess.run(
        [Path(sys.executable).with_name("mlbench"), *words], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode > 1:
        raise click.ClickException(f"mlbench {' '.join(words)} ended with {done.returncode}")
    return done.stdout


@click.command()
@click.option("--seconds", default=10.0, type=click.FloatRange(1), help="Of a full run.")
@click.option("--wobble", default=0.01, type=click.FloatRange(0, 0.5), help="Of the speed from run to run, as a share.")
@click.option("--repeats", default=20, type=click.IntRange(1), help="Runs at each rate that was found.")
@click.option("--start", default=100.0, type=click.FloatRange(0.1), help="LoadGen's first rate: a guess that passes.")
def main(seconds: float, wobble: float, repeats: int, start: float) -> None:
    """Search twice, and repeat what was found."""
    with tempfile.TemporaryDirectory() as folder:
        results = ["--results", str(Path(folder, "results"))]
        common = [
            *("--backend", "null", "--scenario", "Server", "--tier", "smoke", "--no-accuracy", "--power", "none"),
            *("--set", f"backend.service_ms={SERVICE_MS}", "--set", f"backend.service_spread={SPREAD}"),
            *("--set", f"backend.service_wobble={wobble}", "--set", f"load.min_duration_ms={round(1000 * seconds)}"),
        ]
        began_s = time.monotonic()
        tuned = json.loads(mlbench("tune", "resnet50", *common, *results, "--json"))["rate_per_s"]
        tune_s, began_s = time.monotonic() - began_s, time.monotonic()
        peak = find_peak(seconds, wobble, start, Path(folder))
        peak_s = time.monotonic() - began_s
        click.echo("| search | rate | time | valid again |\n|---|---|---|---|")
        for name, rate, taken_s in (("mlbench tune", tuned, tune_s), ("FindPeakPerformance", peak, peak_s)):
            again = ("--set", f"load.target_qps={rate}", "--repeat", str(repeats), "--json")
            runs = json.loads(mlbench("run", "resnet50", *common, *again, "--results", str(Path(folder, name))))
            valid = sum(run["verdict"]["is_valid"] for run in runs)
            click.echo(f"| {name} | {rate:,.1f}/s | {taken_s:.0f} s | {valid} of {len(runs)} |")
        click.echo(f"\ntime of tune over FindPeakPerformance: {tune_s / peak_s:.2f}")


if __name__ == "__main__":
    main()
