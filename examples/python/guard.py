"""A CI job: measure a workload several times, and fail where it is slower or less accurate than earlier runs.

    python guard.py resnet50 --backend pytorch --base last-release --tag this-commit

``--base`` is a baseline, a tag, or a folder of runs. Without it the runs only have to be good, so the first
job needs no other command. Exit status: 0 nothing got worse, 1 something did or could not be judged, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import mlbench


def main(words: Sequence[str] | None = None) -> int:
    """Measure, compare and return the exit status."""
    parser = argparse.ArgumentParser(description="Fail where a workload got worse.")
    parser.add_argument("workload")
    parser.add_argument("--backend", required=True)
    parser.add_argument("--scenario", default="SingleStream")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tag", default="this-commit")
    parser.add_argument("--base")
    given = parser.parse_args(words)
    try:
        runs = mlbench.run(
            given.workload,
            backend=given.backend,
            scenario=given.scenario,
            repeat=given.repeat,
            tag=given.tag,
            on_record=show,
        )
        is_worse = compare(given.base, runs) if given.base else False
    except mlbench.MlbenchError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    return 1 if is_worse or not all(run.is_good for run in runs) else 0


def show(run: mlbench.RunRecord) -> None:
    """Print a line as soon as a run is stored."""
    result = f"{run.result.value:,.0f} {run.result.unit}" if run.result and run.result.value else "no result"
    print(f"{run.workload} {run.backend} {run.scenario} {run.repeat}: {result}, {'good' if run.is_good else 'BAD'}")


def compare(base: str, runs: Sequence[mlbench.RunRecord]) -> bool:
    """Print each number with its verdict; return whether anything got worse, or nothing could be judged."""
    comparison = mlbench.compare(base, runs)
    for cell in comparison.cells:
        for speed in cell.speeds:
            change = f"x {speed.effect.ratio:.3f}" if speed.effect else ""
            print(f"{cell.name}, {speed.measure}: {speed.verdict} {change} {speed.reason}".rstrip())
        for score in cell.scores:
            print(f"{cell.name}, {score.name}: {score.base} before, {score.new} now")
    return comparison.is_worse or comparison.is_blind


if __name__ == "__main__":
    sys.exit(main())
