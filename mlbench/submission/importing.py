"""All results of an official tree, stored as runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mlbench.errors import DataError, UsageError
from mlbench.records.run_folder import RunFolder
from mlbench.records.run_record import RunRecord
from mlbench.submission.results import Unread, read_result
from mlbench.submission.tree import ACCURACY, DETAIL, SUMMARY, Entry, entries_of


@dataclass(slots=True)
class Imported:
    """What came of a tree."""

    records: list[RunRecord] = field(default_factory=list)
    """Of the new runs."""
    known: int = 0
    """How many of its results were there from an earlier import."""
    unread: list[Unread] = field(default_factory=list)
    """What could not be read; a result without its log is no run, without another file it lacks facts."""


def import_tree(
    root: Path,
    results: Path,
    *,
    tag: str = "",
    on_stored: Callable[[Path], None] = lambda folder: None,
) -> Imported:
    """Store a run for each result of a tree; one that was imported before stays as it is.

    Args:
        root: the folder that holds closed, open or network.
        results: where run folders go.
        tag: of all the runs.
        on_stored: hears of each new run folder.

    Raises:
        UsageError: it is no such tree, or the results folder cannot be written.
    """
    outcome, seen = Imported(), set[Unread]()
    for entry in entries_of(root):
        try:
            record, unread = read_result(entry, tag=tag)
        except DataError as error:
            log = entry.performance / DETAIL
            outcome.unread.append(Unread.because(log if str(log) in error.message else root / entry.path, error))
            continue
        outcome.unread += [each for each in unread if each not in seen]
        seen.update(unread)  # one description serves all results of a system
        if (results / record.run_id).exists():
            outcome.known += 1
            continue
        on_stored(_store(entry, record, results))
        outcome.records.append(record)
    return outcome


def _store(entry: Entry, record: RunRecord, results: Path) -> Path:
    """Store a record with the logs it was made from, in a run folder like any other."""
    with RunFolder.create(results, record.run_id) as folder:
        for source, place in ((entry.performance, "performance"), (entry.accuracy, "accuracy")):
            (folder.path / place).mkdir()
            for name in (SUMMARY, DETAIL, ACCURACY):
                if (source / name).is_file():
                    _copy(source / name, folder.path / place / name)
        return folder.store(record)


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise UsageError(f"{source} cannot be copied to {target.parent}: {error.strerror}.") from None
