"""Baselines: sets of records under a name, which later runs are compared with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from mlbench.errors import DataError, UsageError
from mlbench.records.run_record import RunRecord
from mlbench.records.stored import Stored
from mlbench.records.whole_file import write_whole

FOLDER = ".baselines"
"""In the results folder; hidden, so that it is no run."""

_NAME = re.compile(r"[\w.+-]{1,100}")


class Baseline(Stored):
    """Copies of records, so that deleting run folders takes nothing from it.

    History of formats:

    - 1: the first.
    """

    format: Literal[1] = 1
    name: str
    created: AwareDatetime
    records: list[RunRecord]


def save_baseline(results: Path, name: str, records: Sequence[RunRecord]) -> Path:
    """Store records under a name, in place of what was there, and return the file.

    Raises:
        UsageError: the name is no file name, or the folder cannot be written.
    """
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise UsageError(f"baseline name {name!r}.", hint="Use letters, digits, '.', '_', '+' and '-'.")
    file = _file(results, name)
    baseline = Baseline(name=name, created=datetime.now(UTC), records=list(records))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"baselines cannot be stored: {file.parent}: {error.strerror}.") from None
    write_whole(file, baseline.model_dump_json(indent=1) + "\n")
    return file


def read_baseline(results: Path, name: str) -> Baseline:
    """Return a baseline.

    Raises:
        UsageError: there is none of this name.
        DataError: its file is corrupt, or of a newer format.
    """
    file = _file(results, name)
    if not file.is_file():
        known = ", ".join(baseline_names(results)) or "none"
        raise UsageError(f"unknown baseline {name!r}; known are: {known}.", hint="See `mlbench baseline list`.")
    try:
        return Baseline.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"baseline {name!r} cannot be read: {file}: {place}: {first['msg']}.", hint="Save it anew."
        ) from None


def remove_baseline(results: Path, name: str) -> None:
    """Delete a baseline; raises `UsageError` when there is none of this name."""
    read_baseline(results, name)
    _file(results, name).unlink()


def baseline_names(results: Path) -> list[str]:
    """Return the names of all baselines, in alphabetical order."""
    return sorted(file.stem for file in (results / FOLDER).glob("*.json"))


def _file(results: Path, name: str) -> Path:
    return results / FOLDER / f"{name}.json"
