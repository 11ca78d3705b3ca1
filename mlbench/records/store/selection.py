"""Selects records by names on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import UsageError, is_unicode
from mlbench.records.facts import KIND
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.baselines import baseline_names, read_baseline
from mlbench.records.store.index import folders_where, folders_with, open_index
from mlbench.records.store.reading import no_runs, read_all, read_runs, warn_of
from mlbench.records.store.run_folder import find_run, runs_in
from mlbench.records.store.run_names import has_record, names_in

if TYPE_CHECKING:
    import duckdb

_FILTERED = ("workload", "backend", "scenario", "tier")
_NAMED_FACTS = ("workload", "backend")
"""Facts that users may mistake for a tag, and that options filter by."""


def records_named(results: Path, name: str) -> list[RunRecord]:
    """Return the records of a folder of runs, a baseline, one run, or a tag, whichever matches first.

    Of a folder and a tag those that cannot be read are skipped with a warning. A folder without runs matches only where
    nothing else does: an installation in `old`, whose runs have the tag `old`.

    Raises:
        UsageError: nothing matches, or the folder holds no runs.
        DataError: the one run or the baseline cannot be read, or not one of several runs.
    """
    folder = Path(name)
    is_folder = os.path.isdir(folder) and not has_record(folder)  # unlike Path's, never raises
    if is_folder and (any(has_record(folder / each) for each in names_in(folder)) or not _is_name(results, name)):
        return load_records(folder)
    if name in baseline_names(results):
        return read_baseline(results, name).records
    try:
        found = find_run(results, name)
    except UsageError as error:
        is_searched = is_unicode(name) and bool(names_in(results))
        if is_searched and (tagged := folders_where(results, tag=name)):
            return read_runs(tagged)
        fitting = (each for each in _NAMED_FACTS if is_searched and folders_where(results, **{each: name}))
        if fact := next(fitting, ""):
            raise UsageError(
                error.message, hint=f"It is a {fact}: `mlbench table --{fact} {name}` lists its runs."
            ) from None
        raise UsageError(error.message, hint=f"It is not a folder, a baseline or a tag either. {error.hint}") from None
    return [read(found)]


def folders_of(results: Path, names: Iterable[str], records: Iterable[RunRecord]) -> Mapping[str, Path]:
    """Return the folders of records by run: those in the results folder, and in or beside folders that are named."""
    roots = [results, *(root for name in names for root in (Path(name), Path(name).parent))]
    ids = [run.run_id for run in records]
    return {run_id: root / run_id for root in reversed(roots) for run_id in ids if has_record(root / run_id)}


def _is_name(results: Path, name: str) -> bool:
    """Return whether a baseline or a tag has this name."""
    if name in baseline_names(results):
        return True
    return is_unicode(name) and bool(names_in(results)) and bool(folders_where(results, tag=name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects among runs; fields that are None match any run."""

    workload: str | None = None
    backend: str | None = None
    scenario: str | None = None
    tier: str | None = None
    newest: int | None = None
    """Only the newest N matching runs."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Return the wanted values by the name of the fact."""
        return {name: value for name in _FILTERED if (value := getattr(self, name)) is not None}


def select_records(results: Path, names: Iterable[str], wanted: Filter) -> list[RunRecord]:
    """Return the named records (default: all of the folder) that pass a filter, in order.

    Raises:
        UsageError: a name or the filter matches nothing.
        DataError: as `records_named`.
    """
    named = [*names]
    if not named:
        return load_records(results) if wanted == Filter() else _read_found(results, _find_folders(results, wanted))
    found = [record for name in named for record in records_named(results, name)]
    each = {record.run_id: record for record in found}  # a run named twice is one
    facts = wanted.facts
    fitting = [run for run in each.values() if all(getattr(run, name) == value for name, value in facts.items())]
    if not fitting:
        raise _none_fits(len(each), facts)
    if wanted.newest is None:
        return fitting
    kept = {run.run_id for run in sorted(fitting, key=lambda run: run.created)[-wanted.newest :]}
    return [run for run in fitting if run.run_id in kept]


def newest_of_each_kind(results: Path, wanted: Filter) -> tuple[list[RunRecord], int]:
    """Return the newest run of each kind that passes a filter, oldest first, and how many others of them pass it.

    Only their files are read, however many runs there are. Raises as `select_records`.
    """
    with open_index(results) as database:
        condition, values = _condition(wanted)
        rows = database.execute(
            "SELECT max_by(folder, (created, folder)), count(*) FROM stored.records "
            f"WHERE {condition} GROUP BY kind ORDER BY 1",
            values,
        ).fetchall()
        folders = _unless_none(database, [results / folder for folder, _ in rows], wanted)
    return _read_found(results, folders), sum(count for _, count in rows) - len(rows)


def _find_folders(results: Path, wanted: Filter) -> list[Path]:
    """Return the run folders that pass a filter, oldest first."""
    with open_index(results) as database:
        condition, values = _condition(wanted)
        limit = "" if wanted.newest is None else f"LIMIT {wanted.newest:d}"
        rows = database.execute(
            f"SELECT folder FROM stored.records WHERE {condition} ORDER BY created DESC, folder DESC {limit}", values
        ).fetchall()
        return _unless_none(database, sorted(results / folder for (folder,) in rows), wanted)


def _condition(wanted: Filter) -> tuple[str, list[str]]:
    facts = wanted.facts
    if not all(map(is_unicode, facts.values())):
        return "false", []
    return " AND ".join(["true", *(f'"{name}" = ?' for name in facts)]), [*facts.values()]


def _unless_none(database: duckdb.DuckDBPyConnection, folders: list[Path], wanted: Filter) -> list[Path]:
    if not folders:
        (count,) = database.execute("SELECT count(*) FROM stored.records").fetchall()[0]
        raise _none_fits(count, wanted.facts)
    return folders


def _none_fits(count: int, facts: Mapping[str, str]) -> UsageError:
    asked = ", ".join(f"{name} {value!r}" for name, value in facts.items())
    return UsageError(f"none of {count} runs has {asked}.", hint="`mlbench table` lists all.")


def load_records(results: Path) -> list[RunRecord]:
    """Return the records of all runs in a folder, oldest first; those that cannot be read are named in a warning.

    Raises:
        UsageError: it holds none.
        DataError: not one can be read.
    """
    return _read_found(results, runs_in(results))


def _read_found(results: Path, folders: Iterable[Path]) -> list[RunRecord]:
    records, skipped = read_all(folders)
    if not records:
        raise no_runs(results, skipped)
    warn_of(skipped)
    return records


def runs_like(results: Path, records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return all stored runs of the workloads, backends, scenarios and so on that these records have, oldest first.

    No folder, or one without runs, holds none; what cannot be read is skipped with a warning.
    """
    if not names_in(results):
        return []
    kinds = sorted({tuple(getattr(record, name) for name in KIND) for record in records})
    try:
        folders = folders_with(results, KIND, kinds)
    except UsageError:  # none of them is a run's, or none can be read
        return []
    return sorted(read_runs(folders), key=lambda record: record.created)
