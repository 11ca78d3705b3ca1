"""Whether a suite that is killed again and again leaves what an undisturbed one leaves.

    python benchmarks/resume.py --kills 20

Two workloads on two backends in two scenarios, five repeats: forty real runs, each a tenth of a second of load. The
suite is killed with SIGKILL (the whole process group) at a random moment and resumed, as often as asked, and at last to
its end; in another folder it runs undisturbed. Both folders must then hold the same set of runs, each once and none
half-written. Exit status 1 when they do not.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import runs_in
from mlbench.records.store.run_names import RECORD_FILE

SUITE = """
name = "resumed"
repeats = {repeats}

[[runs]]
workload = ["resnet50", "bert"]
backend = ["null", "{backend}"]
scenario = ["Offline", "SingleStream"]
accuracy = false
settings = {{ "load.min_duration_ms" = 100, "load.stage_timeout_s" = 300 }}
"""
Kind = tuple[str, str, str, int]
COMMAND = [sys.executable, "-P", "-m", "mlbench"]


def mlbench(suite: Path, results: Path) -> subprocess.Popen[bytes]:
    """Start the suite in a process group of its own."""
    return subprocess.Popen(
        [*COMMAND, "run", "--suite", str(suite), "--results", str(results)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kinds(results: Path) -> Counter[Kind]:
    """Return how often each run is there; reading a record that is half-written raises."""
    return Counter(kind_of(read(folder)) for folder in runs_in(results))


def kind_of(record: RunRecord) -> Kind:
    """Return what tells a run from all others of a suite."""
    return record.workload, record.backend, record.scenario, record.repeat


def leftovers(results: Path) -> list[str]:
    """Return folders that are not complete run folder."""
    return [folder.name for folder in results.iterdir() if folder.is_dir() and not (folder / RECORD_FILE).is_file()]


def killed(suite: Path, results: Path, after_s: float) -> bool:
    """Start the suite and kill it; tell whether it was still running."""
    process = mlbench(suite, results)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


@click.command()
@click.option("--kills", default=20, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--backend", default="pytorch", show_default=True, help="The one beside the null backend.")
@click.option("--longest", default=25.0, show_default=True, help="A kill comes within so many seconds of a start.")
@click.option("--seed", default=1, show_default=True)
def main(kills: int, repeats: int, backend: str, longest: float, seed: int) -> int:
    """Print what was found after every kill and at the end."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        suite = Path(scratch) / "suite.toml"
        suite.write_text(SUITE.format(backend=backend, repeats=repeats))
        quiet, disturbed = Path(scratch) / "quiet", Path(scratch) / "disturbed"
        started = time.monotonic()
        for number in range(1, kills + 1):
            after_s = rng.uniform(0.2, longest)
            was_running = killed(suite, disturbed, after_s)
            there = kinds(disturbed) if disturbed.is_dir() else Counter()
            told = "killed" if was_running else "had ended"
            click.echo(f"{number:>3}  {told} after {after_s:4.1f} s: {there.total():>2} runs")
        mlbench(suite, disturbed).wait()
        mlbench(suite, quiet).wait()
        one, other = kinds(quiet), kinds(disturbed)
        click.echo(f"undisturbed {one.total()} runs, killed {other.total()}; {time.monotonic() - started:.0f} s in all")
        click.echo(f"left behind: {', '.join(leftovers(disturbed)) or 'nothing'}")
        same = one == other and set(one.values()) == {1}
        click.echo("the same set of runs, each once" if same else f"NOT the same: {one - other}, {other - one}")
        return 0 if same and not leftovers(disturbed) else 1


if __name__ == "__main__":
    sys.exit(main(standalone_mode=False))
