"""How long questions take over many records.

    python benchmarks/records.py --records 100000

Makes synthetic records in a temporary folder, then times, each in a process of its own: the first query (which reads
every record), a second one, and a comparison of two tags of five runs each; beside it the same comparison where these
ten are all there is, which is what a comparison costs without the other records.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np

from mlbench.records.environment import observe_environment
from mlbench.records.run_names import RECORD_FILE
from mlbench.records.run_record import RunRecord

REPEATS = 5
SETTLING_S = 2.5
"""A folder that changed less long ago than two seconds is looked through each time."""


def template() -> RunRecord:
    """Return a record like those of real runs."""
    verdict = {"rules": [], "not_applied": {}, "is_valid": True, "is_accurate": True, "is_conformant": False}
    latencies = {f"{percentile:.2f}_percentile_latency": 10**6 for percentile in (50, 90, 95, 97, 99, 99.9)}
    return RunRecord.model_validate(
        {
            "run_id": "",
            "created": datetime.now(UTC),
            "duration_ns": 10**10,
            "mlbench_version": "0.1.0",
            "workload": "resnet50",
            "backend": "onnxruntime",
            "scenario": "Offline",
            "profile": "mini",
            "tier": "dev",
            "weights": "trained",
            "precision": "fp32",
            "status": "completed",
            "result": {
                "value": 1.0,
                "unit": "samples/s",
                "higher_is_better": True,
                "latency_ns": latencies,
                "counts": {"queries": 1},
            },
            "accuracy": {"scores": {"acc": 98.99}, "targets": [], "line": "", "is_met": True},
            "verdict": verdict,
            "environment": observe_environment(),
        }
    )


def write_records(folder: Path, count: int) -> None:
    """Write records of speeds drawn around 1,000 samples a second, five to a tag."""
    fields = json.loads(template().text())
    speeds = np.random.default_rng(0).normal(1000, 10, count)
    for number, speed in enumerate(speeds):
        fields |= {"run_id": f"run-{number:06d}", "tag": f"night-{number // REPEATS}", "repeat": number % REPEATS + 1}
        fields["result"]["value"] = float(speed)
        (folder / fields["run_id"]).mkdir()
        (folder / fields["run_id"] / RECORD_FILE).write_text(json.dumps(fields))


def seconds(*command: str) -> float:
    """Return how long a command of mlbench takes, start included."""
    started = time.perf_counter()
    run = [sys.executable, "-c", "from mlbench.cli import main; main()", *command]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


@click.command()
@click.option("--records", default=100_000, show_default=True)
def main(records: int) -> None:
    """Print the time of each question."""
    sql = "SELECT backend, scenario, count(*), avg(value) FROM runs GROUP BY ALL"
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["MLBENCH_CACHE"] = f"{scratch}/cache"
        results = Path(scratch) / "results"
        results.mkdir()
        write_records(results, records)
        few = Path(scratch) / "few"
        few.mkdir()
        for number in range(REPEATS, 3 * REPEATS):
            shutil.copytree(results / f"run-{number:06d}", few / f"run-{number:06d}")
        time.sleep(SETTLING_S)
        click.echo(f"{records:,} records; seconds of a process:")
        click.echo(f"  --help              {seconds('--help'):6.2f}")
        click.echo(f"  first query         {seconds('query', sql, '--results', str(results)):6.2f}")
        click.echo(f"  second query        {seconds('query', sql, '--results', str(results)):6.2f}")
        click.echo(f"  compare of two tags {seconds('compare', 'night-1', 'night-2', '--results', str(results)):6.2f}")
        seconds("query", sql, "--results", str(few))
        click.echo(f"  the same among ten  {seconds('compare', 'night-1', 'night-2', '--results', str(few)):6.2f}")


if __name__ == "__main__":
    main()
