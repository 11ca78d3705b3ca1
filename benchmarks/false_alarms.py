"""How often `mlbench regress` cries wolf, and whether it sees a real loss.

    python benchmarks/false_alarms.py --tries 20
    python benchmarks/false_alarms.py --tries 20 --backend pytorch

First the same request again and again: two sets of ten runs made in turns, one held against the other at the default
margin. No alarm is the right answer every time. Then, on the null backend, which can be told how long to take, a set
that takes a tenth longer: the alarm must come, and name it. Exit status 1 when either goes wrong. Nights of many kinds
of noise are made up by `nights.py`, which measures nothing.

Run it on a machine that does nothing else, unless you want to know what a busy one does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

DELAY_MS = 5.0
SLOWER_MS = 5.5
WORKLOAD = "resnet50"


def mlbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end."""
    command = [sys.executable, "-m", "mlbench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Sets:
    """Sets of runs in a results folder, each under a tag."""

    def __init__(self, results: Path, repeats: int) -> None:
        self._results = ("--results", str(results))
        self._repeats = repeats

    def measure(self, backend: str, settings_by_tag: Mapping[str, Sequence[str]]) -> None:
        """Make two sets of runs in turns, A B B A, and a baseline of the name of each."""
        request = ("run", WORKLOAD, "--backend", backend, "--scenario", "SingleStream", "--no-accuracy")
        turn = list(settings_by_tag.items())
        for _ in range(self._repeats):
            for tag, settings in turn:
                options = [each for setting in settings for each in ("--set", setting)]
                mlbench(*request, "--tag", tag, *options, *self._results)
            turn.reverse()
        for tag in settings_by_tag:
            saved = mlbench("baseline", "save", tag, tag, *self._results)
            if saved.returncode:
                raise click.ClickException(saved.stderr)

    def regress(self, tag: str, baseline: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Return the exit status and the one number that is judged."""
        done = mlbench("regress", tag, "--baseline", baseline, "--json", *options, *self._results)
        if not done.stdout:
            raise click.ClickException(done.stderr)
        (cell,) = json.loads(done.stdout)["cells"]
        return done.returncode, {"name": cell["name"], "left_out": len(cell["set_aside"]), **cell["speeds"][0]}


def told(judged: dict[str, Any]) -> str:
    """Return a verdict with its numbers."""
    effect = judged["effect"]
    aside = f", {judged['left_out']} runs INVALID" if judged["left_out"] else ""
    return f"{judged['verdict']:<12} x {effect['ratio']:.3f} ({effect['low']:.3f} to {effect['high']:.3f}){aside}"


@click.command()
@click.option("--tries", default=20, show_default=True)
@click.option("--repeats", default=10, show_default=True)
@click.option("--backend", default="null", show_default=True, help="Of the sets that are alike.")
def main(tries: int, repeats: int, backend: str) -> int:
    """Print each verdict."""
    with tempfile.TemporaryDirectory() as scratch:
        sets = Sets(Path(scratch), repeats)
        settings = [f"backend.delay_ms={DELAY_MS}"] if backend == "null" else []
        alarms = 0
        for number in range(1, tries + 1):
            sets.measure(backend, {f"base-{number}": settings, f"set-{number}": settings})
            status, judged = sets.regress(f"set-{number}", f"base-{number}")
            alarms += status
            click.echo(f"{number:>3}  {told(judged)}")
        click.echo(f"{alarms} false alarms in {tries} tries")
        delays = {"as-it-was": DELAY_MS, "slowed": SLOWER_MS}
        sets.measure("null", {tag: [f"backend.delay_ms={delay}"] for tag, delay in delays.items()})
        status, judged = sets.regress("slowed", "as-it-was", "--across", "settings")
        click.echo(f"a tenth slower: exit status {status}, {judged['name']}: {told(judged)}")
        return 0 if not alarms and status == 1 and judged["verdict"] == "slower" else 1


if __name__ == "__main__":
    sys.exit(main(standalone_mode=False))
