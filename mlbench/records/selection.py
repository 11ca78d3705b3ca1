"""Which records a word on the command line means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.records.baselines import baseline_names, read_baseline
from mlbench.records.index import folders_where
from mlbench.records.run_folder import find_run, names_in, runs_in
from mlbench.records.run_record import RECORD_FILE, RunRecord, read

_KIND = ("workload", "backend", "scenario", "profile", "tier", "weights", "precision")


def records_named(results: Path, name: str) -> list[RunRecord]:
    """Return the records of a folder of runs, a baseline, a tag, or one run, whichever the name fits first.

    Raises:
        UsageError: nothing fits, or the folder holds no runs.
        DataError: a record cannot be read.
    """
    folder = Path(name)
    if folder.is_dir() and not (folder / RECORD_FILE).is_file():
        return stored_records(folder)
    if name in baseline_names(results):
        return read_baseline(results, name).records
    try:
        return [read(find_run(results, name))]
    except UsageError as error:
        if names_in(results) and (tagged := folders_where(results, tag=name)):
            return [read(folder) for folder in tagged]
        raise UsageError(error.message, hint=f"Nor is it a folder, a baseline or a tag. {error.hint}") from None


def stored_records(results: Path) -> list[RunRecord]:
    """Return the records of all runs in a folder, oldest first.

    Raises:
        UsageError: it holds none.
        DataError: one cannot be read.
    """
    records = [read(folder) for folder in runs_in(results)]
    if not records:
        raise UsageError(f"no runs in {results}.", hint="Measure something with `mlbench run`.")
    return records


def runs_like(results: Path, records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return all stored runs of the workloads, backends, scenarios and so on that these records have, oldest first.

    No folder, or one without runs, holds none.

    Raises:
        DataError: a record cannot be read.
    """
    if not names_in(results):
        return []
    kinds = sorted({tuple(getattr(record, name) for name in _KIND) for record in records})
    found = (folders_where(results, **dict(zip(_KIND, kind, strict=True))) for kind in kinds)
    return sorted((read(folder) for folders in found for folder in folders), key=lambda record: record.created)
