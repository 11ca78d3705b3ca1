"""How long questions take over many records.

    python benchmarks/records.py --records 100000
    python benchmarks/records.py --records 100000 --nights

Makes synthetic records in a temporary folder, then times, each in a process of its own: the first query (which reads
every record), a second one, and a comparison of two tags of five runs each; beside it the same comparison where these
ten are all there is, which is what a comparison costs without the other records. Last the site on all of them, with its
peak memory. With ``--nights`` the records are of 108 combinations, made night after night, and no tags are compared.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from mlbench.contracts.load_pattern import LOAD_PATTERNS
from mlbench.records.machine.environment import observe_environment
from mlbench.records.run_record import RunRecord
from mlbench.records.scenario_record import facts_of_older
from mlbench.records.store.run_names import RECORD_FILE

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


def write_nights(folder: Path, count: int) -> None:
    """Write records of 108 combinations, five repeats a night; one combination in three loses a tenth half-way."""
    fields, random = json.loads(template().text()), np.random.default_rng(0)
    combinations = [*product((f"workload-{number}" for number in range(9)), ("a", "b", "c"), SCENARIOS)]
    nights = count // (len(combinations) * REPEATS)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    for number, (workload, backend, scenario) in enumerate(combinations):
        levels = [0.9 if number % 3 == 0 and night > nights // 2 else 1.0 for night in range(nights)]
        for night, repeat in product(range(nights), range(REPEATS)):
            speed = 1000 * levels[night] * random.normal(1, 0.01)
            fields |= {
                "run_id": f"{night:05d}-{number:03d}-{repeat}",
                "created": (first + timedelta(days=night, seconds=10 * repeat)).isoformat(),
                **{"workload": workload, "backend": backend, "scenario": scenario, "repeat": repeat + 1},
                "scenario_facts": SCENARIOS[scenario],
            }
            fields["result"]["value"] = speed
            fields["result"]["latency_ns"] = dict.fromkeys(fields["result"]["latency_ns"], round(1e9 / speed))
            (folder / fields["run_id"]).mkdir()
            (folder / fields["run_id"] / RECORD_FILE).write_text(json.dumps(fields))


def scenario_facts(name: str) -> dict[str, Any]:
    """Return what a record says of an official scenario."""
    return facts_of_older({"scenario": name}).model_dump(mode="json")


SCENARIOS = {name: scenario_facts(name) for name in LOAD_PATTERNS}


def seconds(*command: str) -> float:
    """Return how long a command of mlbench takes, start included."""
    started = time.perf_counter()
    run = [sys.executable, "-m", "mlbench", *command]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def report_site(results: Path, site: Path) -> None:
    """Print how long the site takes, its processor time and its peak memory."""
    command = "import resource, sys\nfrom mlbench.cli import main\n"
    command += "try:\n    main()\nfinally:\n    used = resource.getrusage(resource.RUSAGE_SELF)\n"
    command += "    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)"
    started = time.perf_counter()
    run = [sys.executable, "-c", command, "site", str(site), "--results", str(results)]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    took_s = time.perf_counter() - started
    busy_s, peak_mib = map(float, done.stderr.split()[-2:])
    click.echo(f"  site                {took_s:6.2f}, {busy_s:.2f} of the processor, at most {peak_mib:.0f} MiB")


@click.command()
@click.option("--records", default=100_000, show_default=True)
@click.option("--nights", is_flag=True, help="Records of 108 combinations, night after night.")
def main(records: int, nights: bool) -> None:
    """Print the time of each question."""
    sql = "SELECT backend, scenario, count(*), avg(value) FROM runs GROUP BY ALL"
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["MLBENCH_CACHE"] = f"{scratch}/cache"
        results = Path(scratch) / "results"
        results.mkdir()
        (write_nights if nights else write_records)(results, records)
        time.sleep(SETTLING_S)
        click.echo(f"{len(os.listdir(results)):,} records; seconds of a process:")
        click.echo(f"  --help              {seconds('--help'):6.2f}")
        click.echo(f"  first query         {seconds('query', sql, '--results', str(results)):6.2f}")
        click.echo(f"  second query        {seconds('query', sql, '--results', str(results)):6.2f}")
        report_site(results, Path(scratch) / "site")
        if nights:
            return
        few = Path(scratch) / "few"
        few.mkdir()
        for number in range(REPEATS, 3 * REPEATS):
            shutil.copytree(results / f"run-{number:06d}", few / f"run-{number:06d}")
        time.sleep(SETTLING_S)
        click.echo(f"  compare of two tags {seconds('compare', 'night-1', 'night-2', '--results', str(results)):6.2f}")
        seconds("query", sql, "--results", str(few))
        click.echo(f"  the same among ten  {seconds('compare', 'night-1', 'night-2', '--results', str(few)):6.2f}")


if __name__ == "__main__":
    main()
