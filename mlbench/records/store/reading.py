"""Reads many records: one that cannot be read is skipped and named."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import DataError, UsageError
from mlbench.records.run_record import RunRecord, read

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A run folder whose record cannot be read, and why."""

    folder: Path
    reason: str


def read_runs(folders: Iterable[Path]) -> list[RunRecord]:
    """Return the records of run folders.

    Those that cannot be read are reported in one warning, with the first one's reason.
    """
    records, skipped = read_all(folders)
    warn_of(skipped)
    return records


def read_all(folders: Iterable[Path]) -> tuple[list[RunRecord], list[Unreadable]]:
    """Return the records of run folders, and which of them cannot be read."""
    found = [each for _, each in read_each(folders)]
    return (
        [each for each in found if isinstance(each, RunRecord)],
        [each for each in found if isinstance(each, Unreadable)],
    )


def read_each(folders: Iterable[Path]) -> Iterator[tuple[Path, RunRecord | Unreadable]]:
    """Yield each run folder with its record, or with why it cannot be read."""
    for folder in folders:
        try:
            yield folder, read(folder)
        except DataError as error:
            yield folder, Unreadable(folder=folder, reason=error.message)


def warn_of(skipped: Sequence[Unreadable]) -> None:
    """Log the first of the skipped records, and how many more there are."""
    if skipped:
        logger.warning("%s", _summary(skipped, "skipped"))


def no_runs(results: Path, skipped: Sequence[Unreadable] = ()) -> UsageError:
    """Return the error that a folder holds no runs, or none that can be read."""
    if skipped:
        return DataError(f"no run in {results} can be read: {_summary(skipped, 'found')}")
    return UsageError(f"no runs in {results}.", hint="Measure something with `mlbench run`.")


def _summary(skipped: Sequence[Unreadable], verb: str) -> str:
    """Return how many records cannot be read, with the reason of the first."""
    first, *others = sorted(skipped, key=lambda each: each.folder)
    if not others:
        return f"1 run {verb}: {first.reason}"
    return f"{len(skipped)} runs {verb}: {first.reason} And {len(others)} more."
