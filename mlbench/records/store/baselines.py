"""Baselines: named sets of records to compare later runs with."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from mlbench.errors import DataError, UsageError, first_line
from mlbench.records.run_record import RunRecord
from mlbench.records.store.whole_file import write_whole
from mlbench.records.stored import Stored
from mlbench.system.documents import first_problem, parse_json, read_text

FOLDER = ".baselines"
"""In the results folder; hidden, so that it is not a run."""

FORMAT = 1

_NAME = re.compile(r"[\w.+-]{1,100}")


class Baseline(Stored):
    """Copies of records, so that run folders may be deleted.

    History of formats:

    - 1: the first.
    """

    format: Literal[1] = 1
    name: str
    created: AwareDatetime
    records: list[RunRecord]


def save_baseline(results: Path, name: str, records: Sequence[RunRecord]) -> Path:
    """Store records under a name, replacing an older baseline, and return the file.

    Raises:
        UsageError: the name is not a file name, or the folder cannot be written.
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
        DataError: its file cannot be read, is corrupt, or of a newer format.
    """
    file, what = _existing(results, name), f"baseline {name!r}"
    try:
        fields = parse_json(read_text(file, what=what, hint="Save it again."))
        if isinstance(fields, dict) and type(found := fields.get("format")) is int and found > FORMAT:
            raise DataError(
                f"{what} is of format {found}; this mlbench reads up to {FORMAT}: {file}.", hint="Upgrade mlbench."
            )
        return Baseline.model_validate(fields)
    except ValidationError as error:
        reason = first_problem(error)
    except ValueError as error:
        reason = first_line(error)
    raise DataError(f"{what} cannot be read: {file}: {reason}.", hint="Save it again.")


def remove_baseline(results: Path, name: str) -> None:
    """Delete a baseline; raises `UsageError` when there is none of this name."""
    file = _existing(results, name)
    try:
        file.unlink()
    except OSError as error:
        raise UsageError(f"baseline {name!r} cannot be removed: {file}: {error.strerror}.") from None


def baseline_names(results: Path) -> list[str]:
    """Return the names of all baselines, in alphabetical order; raises `UsageError` where they cannot be listed."""
    try:
        with os.scandir(results / FOLDER) as entries:
            return sorted(entry.name.removesuffix(".json") for entry in entries if _is_baseline(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"baselines cannot be read: {results / FOLDER}: {error.strerror}.") from None


def _is_baseline(file_name: str) -> bool:
    return file_name.endswith(".json") and _NAME.fullmatch(file_name.removesuffix(".json")) is not None


def _existing(results: Path, name: str) -> Path:
    """Return the file of a baseline; raises `UsageError` when there is none of this name."""
    names = baseline_names(results)
    if name not in names:
        known = ", ".join(names) or "none"
        raise UsageError(f"unknown baseline {name!r}; known are: {known}.", hint="See `mlbench baseline list`.")
    return _file(results, name)


def _file(results: Path, name: str) -> Path:
    return results / FOLDER / f"{name}.json"
