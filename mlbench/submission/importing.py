"""All results of an official tree, stored as runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlbench.errors import DataError, UsageError
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_folder import RunFolder
from mlbench.submission.power import SPL
from mlbench.submission.results import read_result
from mlbench.submission.rounds import entries_by_round, explain_other_round, find_round
from mlbench.submission.sources import Unread
from mlbench.submission.tree import ACCURACY, DETAIL, SUMMARY, ResultEntry, trees_in
from mlbench.system.documents import copy_file, inside, is_file


@dataclass(slots=True)
class Imported:
    """The result of importing a tree."""

    records: list[RunRecord] = field(default_factory=list)
    """Records of the new runs."""
    known: int = 0
    """How many results were already imported."""
    unread: list[Unread] = field(default_factory=list)
    """Unread files; a result without its log is not imported, without another file it lacks facts."""

    @property
    def other_rounds(self) -> Mapping[str, int]:
        """How many of the results that were not read are of which round without rules here."""
        return Counter(each.round for each in self.unread if each.round)


def import_tree(
    root: Path,
    results: Path,
    *,
    tag: str = "",
    on_stored: Callable[[Path], None] = lambda folder: None,
) -> Imported:
    """Store a run for each result of a tree, or of several; one that was imported before stays as it is.

    Args:
        root: the folder that holds closed, open or network, or folders that do.
        results: where run folders go.
        tag: of all the runs.
        on_stored: called with each new run folder.

    Raises:
        UsageError: it is not such a tree, or the results folder cannot be written.
    """
    with inside(root):
        return _import(root, results, tag, on_stored)


def _import(root: Path, results: Path, tag: str, on_stored: Callable[[Path], None]) -> Imported:
    outcome, seen = Imported(), set[Unread]()
    for entry in (entry for tree in trees_in(root) for entry in entries_by_round(tree)):
        try:
            record, unread = read_result(entry, tag=tag)
        except DataError as error:
            outcome.unread.append(_refuse(entry, error))
            continue
        outcome.unread += [each for each in unread if each not in seen]
        seen.update(unread)  # one description serves all results of a system
        if (results / record.run_id).exists():
            outcome.known += 1
            continue
        on_stored(_store(entry, record, results, outcome.unread))
        outcome.records.append(record)
    if sum(outcome.other_rounds.values()) > len(outcome.records) + outcome.known:
        outcome.unread = _assign_round(outcome)
    return outcome


def _refuse(entry: ResultEntry, error: DataError) -> Unread:
    """Return the reason why a result was not imported: that it is of another round explains everything else."""
    found = find_round(entry)
    if reason := explain_other_round(found):
        return Unread(entry.root / entry.path, reason, found or "")
    log = entry.performance / DETAIL
    return Unread.because(log if str(log) in error.message else entry.root / entry.path, error)


def _assign_round(outcome: Imported) -> list[Unread]:
    """Return what was not read of a tree, counting files without a round as of the tree's other round."""
    rounds = " and ".join(sorted(outcome.other_rounds))
    return [
        each if each.round else replace(each, reason=f"{each.reason} It is in a tree of round {rounds}.", round=rounds)
        for each in outcome.unread
    ]


def _store(entry: ResultEntry, record: RunRecord, results: Path, unread: list[Unread]) -> Path:
    """Store a record with the logs it was made from, in a run folder like any other; add those that cannot be."""
    with RunFolder.create(results, record.run_id) as folder:
        for source, place in ((entry.performance, "performance"), (entry.accuracy, "accuracy")):
            (folder.path / place).mkdir()
            for name in (SUMMARY, DETAIL, ACCURACY, SPL):
                if is_file(source / name):
                    try:
                        _copy(source / name, folder.path / place / name)
                    except DataError as error:
                        unread.append(Unread.because(source / name, error))
        return folder.store(record)


def _copy(source: Path, target: Path) -> None:
    try:
        copy_file(source, target)
    except OSError as error:
        raise UsageError(f"{source} cannot be copied to {target.parent}: {error.strerror}.") from None
