"""A submission tree from stored runs: written beside its place, checked, and then renamed into it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlbench.errors import StorageError, UsageError
from mlbench.records.store.whole_folder import hold_folder_beside
from mlbench.submission.building.entries import BuiltEntry
from mlbench.submission.building.files import write_tree
from mlbench.submission.building.system import System
from mlbench.submission.checking.whole_tree import EntryCheck, TreeCheck, check_tree

_SAME = 1e-9
_NOT_SUBMITTABLE = """# Not submittable

An example by `mlbench submit demo`: small models, short runs, and a description without what only a person knows.
It shows the folders and files of a tree, and what a check says. Nothing in it is a result of MLPerf.
"""


def check_place(place: Path) -> None:
    """Raise `UsageError` where a tree cannot be built."""
    if os.path.lexists(place):
        raise UsageError(f"{place} is there already.", hint="Name a new folder: nothing is replaced.")
    if not os.path.isdir(place.absolute().parent):
        raise UsageError(f"{place.absolute().parent} is not a folder.", hint="Make it first.")


def build_tree(place: Path, system: System, entries: Sequence[BuiltEntry]) -> list[EntryCheck]:
    """Build the tree of some entries, and return the check of each; nothing is left of one that would not pass.

    Raises:
        UsageError: the place is taken, a run lacks a log, a log is not its record's, or the finished tree has an entry
            that would be refused.
        StorageError: it cannot be written.
    """
    with _new_tree(place, system, entries) as (_, checked):
        checks = _match(checked, entries)
        _check_accepted(checked)
    return checks


def build_example(place: Path, system: System, entries: Sequence[BuiltEntry]) -> TreeCheck:
    """Build a tree that shows what one is like, of runs that no entry can be made of; it says so in a file.

    Raises:
        UsageError: the place is taken, or a run lacks a log.
        StorageError: it cannot be written.
    """
    with _new_tree(place, system, entries) as (folder, checked):
        (folder / "NOT_SUBMITTABLE.md").write_text(_NOT_SUBMITTABLE, encoding="utf-8")
    return checked


@contextmanager
def _new_tree(place: Path, system: System, entries: Sequence[BuiltEntry]) -> Iterator[tuple[Path, TreeCheck]]:
    """Write a tree next to its final place, check it, then move it there unless an error is raised."""
    check_place(place)
    try:
        with hold_folder_beside(place.absolute()) as folder:
            write_tree(folder, system, [*entries])
            yield folder, check_tree(folder, system.round)
            check_place(place)  # minutes may have passed
            folder.rename(place)
    except OSError as error:
        raise StorageError(f"tree cannot be written: {place}: {error.strerror}.", hint="") from None


def _match(checked: TreeCheck, entries: Sequence[BuiltEntry]) -> list[EntryCheck]:
    """Return the check of each entry, whose result must be what the record says."""
    by_place = {(each.entry.model, each.entry.scenario): each for each in checked.entries}
    found = []
    for entry in entries:
        check, record = by_place[entry.required.model, entry.required.scenario], entry.run.record
        stored = record.result.value if record.result else None
        logged = check.result.value if check.result else None
        if stored is None or logged is None or abs(stored - logged) > _SAME * abs(stored):
            raise UsageError(
                f"run {record.run_id} differs from its logs: result is {stored}, and by its log {logged}.",
                hint="`mlbench verify` lists all.",
            )
        found.append(check)
    return found


def _check_accepted(checked: TreeCheck) -> None:
    """Raise with the first rule that the finished tree breaks."""
    wrong = [each for each in checked.findings if not each.is_note]
    if wrong:
        first = wrong[0]
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        said = f"{first.evidence.measured}, limit {first.evidence.limit}. " if first.evidence else ""
        raise UsageError(f"the tree would not pass: {first.rule}: {first.path}: {said}{first.message}{more}")
