"""Measures a run again with two installations of mlbench in turns: another command, and this one."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlbench.comparison.speeds import Sides
from mlbench.contracts.graph import Precision
from mlbench.contracts.workload import Profile, Weights
from mlbench.errors import MlbenchError, UsageError
from mlbench.records.run_folder import runs_in
from mlbench.records.run_record import RunRecord, read
from mlbench.rules.tiers import Tier
from mlbench.runner import RunRequest

FOLDER = ".in-turns"
"""In the results folder; hidden, so that its runs are not part of a history."""

_HAND_SET = ("suite", "command line")


class Command:
    """Another installation's mlbench, such as ``old/bin/mlbench``."""

    def __init__(self, text: str) -> None:
        """Take a command line apart.

        Raises:
            UsageError: there is no such program.
        """
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{text!r} is not a command: {error}.") from None
        if not self._words or not shutil.which(self._words[0]):
            raise UsageError(f"there is no program {text!r}.", hint="Name the other mlbench, such as old/bin/mlbench.")

    def run(self, request: RunRequest) -> RunRecord:
        """Make a run, and return its record.

        Raises:
            MlbenchError: it left none.
        """
        before = set(runs_in(request.results))
        done = subprocess.run(
            [*self._words, *arguments_of(request)], capture_output=True, text=True, check=False, errors="replace"
        )
        made = [folder for folder in runs_in(request.results) if folder not in before]
        if len(made) == 1:
            return read(made[0])
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise MlbenchError(
            f"{shlex.join(self._words)} left {len(made)} runs, not one (status {done.returncode}): {last}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Who makes which run."""

    request: RunRequest
    run: Callable[[RunRequest], RunRecord]


def request_like(record: RunRecord, results: Path) -> RunRequest:
    """Return a request for the same run without accuracy, into a separate folder."""
    return RunRequest(
        workload=record.workload,
        backend=record.backend,
        scenario=record.scenario,
        profile=Profile(record.profile),
        tier=Tier(record.tier),
        weights=Weights(record.weights),
        precision=Precision(record.precision),
        wants_accuracy=False,
        overrides={key: _as_text(key, each.value) for key, each in record.settings.items() if each.layer in _HAND_SET},
        results=results / FOLDER,
        tag=record.tag,
    )


def arguments_of(request: RunRequest) -> list[str]:
    """Return the command line of a request, without the program."""
    options = {
        "--backend": request.backend,
        "--scenario": request.scenario,
        "--profile": request.profile,
        "--tier": request.tier,
        "--weights": request.weights,
        "--precision": request.precision,
        "--tag": request.tag,
        "--power": request.power,
        "--results": str(request.results.absolute()),
    }
    words = [
        "run",
        request.workload,
        *(word for name, value in options.items() if value for word in (name, str(value))),
    ]
    words += [] if request.wants_accuracy else ["--no-accuracy"]
    return [*words, *(word for key, value in request.overrides.items() for word in ("--set", f"{key}={value}"))]


def measure_in_turns(base: Maker, new: Maker, pairs: int) -> Sides:
    """Make both runs again, A B B A, so many times each; steady drift affects both equally."""
    made: tuple[list[RunRecord], list[RunRecord]] = ([], [])
    for number in range(1, pairs + 1):
        sides = list(zip((base, new), made, strict=True))
        for maker, records in sides if number % 2 else reversed(sides):
            records.append(maker.run(replace(maker.request, repeat=number)))
    return Sides(base=tuple(made[0]), new=tuple(made[1]))


def _as_text(key: str, value: Any) -> str:
    """Return a setting as ``--set`` takes it."""
    if isinstance(value, Mapping):
        return ",".join(name if its is None else f"{name}={its}" for name, its in value.items())
    if value is None or isinstance(value, list):
        raise UsageError(
            f"{key} is {value!r}, which cannot be given on a command line.", hint="Measure in turns by hand."
        )
    return str(value)
