"""The records of a results folder as tables: read once, kept in the cache, brought up to date when asked.

Run folders never change, so a folder's name shows whether its record is known. A record is in the tables
as `run_record.read` gives it; one that cannot be read is left out, and tried again each time.

Any number of processes may ask at once. The cached file never changes: updates go to a copy, under a lock, which then
replaces it. Without a cache or the lock, and for a few runs, the tables are made in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import UsageError, first_line
from mlbench.records.kinds import kind_of
from mlbench.records.run_record import FORMAT, RunRecord
from mlbench.records.store.reading import Unreadable, no_runs, read_each, warn_of
from mlbench.records.store.run_names import has_record, names_in
from mlbench.system.folders import cache_folder
from mlbench.system.locks import hold_lock

if TYPE_CHECKING:
    import duckdb

VERSION = 14
"""Version of the tables below; a file of another version is rebuilt."""

_AT_A_TIME = 5000
_KEPT_FROM = 10
"""Number of folders from which the tables are kept. A file saves later commands 0.02 s of a few runs, and costs 0.05 s
after each new run."""
_FEW = 100
"""Number of new folders to read before the file is copied: perhaps none of them can be read."""
_LARGEST_BYTES = 256 << 20
"""Largest record as one line: each control character takes six letters."""
_PATIENCE_S = 10.0
"""How long to wait for another process that updates the tables."""
_SETTLED_NS = 2_000_000_000
"""Resolution of the slowest file system clocks."""

_COLUMNS = {
    **dict.fromkeys(("run_id", "mlbench_version", "workload", "backend", "scenario", "profile", "tier"), "VARCHAR"),
    **dict.fromkeys(("round", "weights", "precision", "transform", "tag", "status", "loadgen_version"), "VARCHAR"),
    "imported": "STRUCT(path VARCHAR, division VARCHAR, submitter VARCHAR, system VARCHAR, variant VARCHAR)",
    "format": "INTEGER",
    "created": "TIMESTAMP",
    "repeat": "BIGINT",
    **dict.fromkeys(("duration_ns", "overhead_ns_per_sample", "peak_memory_bytes"), "BIGINT"),
    "failure": "STRUCT(kind VARCHAR, message VARCHAR, stage VARCHAR)",
    "result": (
        "STRUCT(value DOUBLE, unit VARCHAR, higher_is_better BOOLEAN, latency_ns MAP(VARCHAR, BIGINT), "
        "counts MAP(VARCHAR, BIGINT))"
    ),
    "accuracy": (
        "STRUCT(scores MAP(VARCHAR, DOUBLE), targets STRUCT(score VARCHAR, name VARCHAR, reference DOUBLE, "
        'lower DOUBLE, upper DOUBLE, required BOOLEAN, "value" DOUBLE, is_met BOOLEAN)[], line VARCHAR, is_met BOOLEAN)'
    ),
    "verdict": "STRUCT(is_valid BOOLEAN, is_accurate BOOLEAN, is_conformant BOOLEAN)",
    "energy": "STRUCT(joules DOUBLE, seconds DOUBLE, source VARCHAR, covers VARCHAR, joules_per_sample DOUBLE)",
    "other_work": "STRUCT(processes DOUBLE, stolen DOUBLE)",
    "processor_time": (
        "STRUCT(ns DOUBLE, unit VARCHAR, covers VARCHAR, reference VARCHAR, reference_ns DOUBLE, relative_ns DOUBLE, "
        "samples BIGINT)"
    ),
    "telemetry": (
        "STRUCT(processor_share DOUBLE, devices STRUCT(device VARCHAR, sensor VARCHAR, readings BIGINT, "
        "clock_mhz DOUBLE, lowest_clock_mhz DOUBLE, highest_temperature_c DOUBLE, mean_power_w DOUBLE, "
        "mean_busy DOUBLE, most_memory_bytes BIGINT, strangers BIGINT, throttled MAP(VARCHAR, DOUBLE))[])"
    ),
    "beside": "STRUCT(lane BIGINT, lanes BIGINT, processors BIGINT[], device VARCHAR, runs STRUCT(run_id VARCHAR)[])",
    "transfers": "STRUCT(calls_per_sample DOUBLE, bytes_per_sample DOUBLE)",
    "work": "STRUCT(operations_per_sample DOUBLE, bytes_per_sample DOUBLE)",
    "roofline": "STRUCT(share DOUBLE, bound VARCHAR)",
    "samples": "MAP(VARCHAR, BIGINT)",
    "stages_ns": "MAP(VARCHAR, BIGINT)",
    "settings": "JSON",
    "load": "JSON",
    "engine": "JSON",
    "runtime": "JSON",
    "fingerprints": "MAP(VARCHAR, VARCHAR)",
    "environment": (
        "STRUCT(machine VARCHAR, cpu STRUCT(model VARCHAR), allowance STRUCT(threads BIGINT), "
        "accelerators STRUCT(name VARCHAR)[], os VARCHAR, kernel VARCHAR, python VARCHAR, load_average DOUBLE, "
        "libraries MAP(VARCHAR, VARCHAR))"
    ),
}
"""Fields of a record that are read, with their types."""

VIEWS = {
    "runs": """
        SELECT run_id, created, tag, repeat, workload, backend, scenario, round, precision, transform, profile, tier,
            weights, status,
            verdict.is_valid, verdict.is_accurate, verdict.is_conformant, result."value", result.unit,
            result.higher_is_better, failure.kind AS failure, failure.message AS failure_message,
            duration_ns, overhead_ns_per_sample, peak_memory_bytes, energy.joules, energy.joules_per_sample,
            energy.joules / energy.seconds AS watts,
            work.operations_per_sample, work.bytes_per_sample, roofline.share AS ceiling_share,
            transfers.bytes_per_sample AS transfer_bytes_per_sample,
            transfers.calls_per_sample AS graph_calls_per_sample,
            samples['issued'] AS samples,
            environment.machine, environment.cpu.model AS cpu, environment.allowance.threads AS threads,
            environment.accelerators[1].name AS accelerator, len(environment.accelerators) AS accelerators,
            environment.os, environment.kernel, environment.python, environment.load_average,
            other_work.processes + other_work.stolen AS other_work,
            processor_time.ns AS processor_ns, processor_time.relative_ns AS processor_relative_ns,
            beside.lane, beside.lanes, len(beside.runs) AS runs_beside,
            environment.libraries, fingerprints, settings, load, engine, runtime, mlbench_version, loadgen_version,
            imported
        FROM records""",
    "accuracy": """
        SELECT run_id, workload, backend, scenario, precision, profile, target.score, target."value",
            target.name AS target, target.reference, target.lower, target.upper, target.required, target.is_met
        FROM (SELECT *, unnest(accuracy.targets) AS target FROM records WHERE accuracy IS NOT NULL)""",
    "latency": """
        SELECT run_id, workload, backend, scenario, precision, profile, entry.key AS name, entry."value" AS ns
        FROM (SELECT *, unnest(map_entries(result.latency_ns)) AS entry FROM records WHERE result IS NOT NULL)""",
    "telemetry": """
        SELECT run_id, workload, backend, scenario, precision, profile, each.*
        FROM (SELECT *, unnest(telemetry.devices) AS each FROM records WHERE telemetry IS NOT NULL)""",
}
"""Views for queries."""


@contextmanager
def open_index(results: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a database with the records of all run folders as ``stored.records``, brought up to date.

    Records that cannot be read are named in a warning.

    Raises:
        UsageError: the folder holds no runs.
        DataError: none of its records can be read.
    """
    import duckdb

    if not os.path.isdir(results):
        raise no_runs(results)
    with duckdb.connect() as database:
        skipped = _attach_kept(database, results)
        if skipped is None:
            database.execute("ATTACH ':memory:' AS stored")
            skipped = _fill_memory(database, results)
        (count,) = database.execute("SELECT count(*) FROM stored.records").fetchall()[0]
        if not count:
            raise no_runs(results, skipped)
        warn_of(skipped)
        yield database


def folders_where(results: Path, **fields: str) -> list[Path]:
    """Return the run folders whose records have these values (``tag="nightly"``), oldest first; as `open_index`."""
    return folders_with(results, tuple(fields), [tuple(fields.values())])


def folders_with(results: Path, names: Sequence[str], wanted: Sequence[Sequence[str]]) -> list[Path]:
    """Return the run folders whose records have, under these names, one of the wanted rows of values; as above."""
    condition = " AND ".join(["true", *(f'"{name}" = ?' for name in names)])
    found = set[str]()
    with open_index(results) as database:
        for values in wanted:
            rows = database.execute(f"SELECT folder FROM stored.records WHERE {condition}", list(values)).fetchall()
            found.update(folder for (folder,) in rows)
    return [results / name for name in sorted(found)]


def _fill_memory(database: duckdb.DuckDBPyConnection, results: Path) -> list[Unreadable]:
    try:
        return _bring_up_to_date(database, results)
    except OSError as error:  # the lines that DuckDB reads pass through a file
        raise UsageError(f"temporary file cannot be written: {error.strerror}.", hint="Set TMPDIR.") from None


def _attach_kept(database: duckdb.DuckDBPyConnection, results: Path) -> list[Unreadable] | None:
    """Attach the updated file in the cache, and return what cannot be read; None if that fails, or is not worth it."""
    import duckdb

    key = hashlib.sha256(f"{VERSION} {FORMAT} {results.resolve()}".encode(errors="surrogateescape")).hexdigest()[:16]
    file = cache_folder() / "records" / f"{key}.duckdb"
    try:
        if not file.is_file() and len(names_in(results)) < _KEPT_FROM:
            return None
        file.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(file.with_suffix(".lock"), patience_s=_PATIENCE_S, is_made=True):
            skipped = _look_through(database, file, results)
            if skipped is None:
                skipped = _replace(file, results)
                database.execute(f"ATTACH '{quote(file)}' AS stored (READ_ONLY)")
            return skipped
    except (OSError, duckdb.Error):  # no place to write, a full disk, or another process has the lock
        with suppress(duckdb.Error):
            database.execute("DETACH DATABASE IF EXISTS stored")
        return None


def _look_through(database: duckdb.DuckDBPyConnection, file: Path, results: Path) -> list[Unreadable] | None:
    """Attach a file if it is up to date, and return what cannot be read; otherwise None, with nothing attached."""
    import duckdb

    if not file.is_file():
        return None
    try:
        database.execute(f"ATTACH '{quote(file)}' AS stored (READ_ONLY)")
        changed_ns = _last_change_ns(results)
        is_stamped = database.execute("SELECT changed_ns FROM stored.seen").fetchall() == [(changed_ns,)]
        if is_stamped and changed_ns:
            return []
        new, gone = _differences(database, results)
        if not gone and len(new) <= _FEW:
            found = [each for _, each in read_each(results / name for name in new)]
            skipped = [each for each in found if isinstance(each, Unreadable)]
            is_to_be_stamped = changed_ns and not skipped
            if len(skipped) == len(new) and not is_to_be_stamped:
                return skipped
        database.execute("DETACH stored")
    except duckdb.Error:  # damaged, or of another version of DuckDB
        with suppress(duckdb.Error):
            database.execute("DETACH DATABASE IF EXISTS stored")
        file.unlink(missing_ok=True)
    return None


def _replace(file: Path, results: Path) -> list[Unreadable]:
    """Replace the file by an updated copy, and return what cannot be read."""
    import duckdb

    changed_ns = _last_change_ns(results)
    beside = file.with_suffix(f".{os.getpid()}.partial")
    try:
        if file.is_file():
            shutil.copyfile(file, beside)
        with duckdb.connect() as database:
            database.execute(f"ATTACH '{quote(beside)}' AS stored")
            skipped = _bring_up_to_date(database, results)
            if not skipped:  # otherwise it must be scanned again
                database.execute("INSERT INTO stored.seen VALUES (?)", [changed_ns])
            database.execute("CHECKPOINT stored")
        beside.replace(file)
    finally:
        for left in (beside, Path(f"{beside}.wal")):
            left.unlink(missing_ok=True)
    return skipped


def _last_change_ns(results: Path) -> int:
    """Return when a run folder last came or went; 0 where that was too little ago to tell the next change from it."""
    changed_ns = results.stat().st_mtime_ns
    return changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else 0


def _bring_up_to_date(database: duckdb.DuckDBPyConnection, results: Path) -> list[Unreadable]:
    """Read the records of new folders, forget those of folders that are gone, and return what cannot be read."""
    columns = ", ".join(f'"{name}" {kind}' for name, kind in _COLUMNS.items())
    database.execute(f"CREATE TABLE IF NOT EXISTS stored.records (folder VARCHAR, kind VARCHAR, {columns})")
    database.execute("CREATE OR REPLACE TABLE stored.seen (changed_ns BIGINT)")
    new, gone = _differences(database, results)
    if gone:
        database.execute("DELETE FROM stored.records WHERE folder IN (SELECT unnest(?))", [gone])
    return [each for start in range(0, len(new), _AT_A_TIME) for each in _add(database, results, new, start)]


def _differences(database: duckdb.DuckDBPyConnection, results: Path) -> tuple[list[str], list[str]]:
    """Return the run folders that are not in the table, and those in it that are gone."""
    known = {name for (name,) in database.execute("SELECT folder FROM stored.records").fetchall()}
    present = set(names_in(results))
    return [name for name in sorted(present - known) if has_record(results / name)], sorted(known - present)


def _add(database: duckdb.DuckDBPyConnection, results: Path, names: Sequence[str], start: int) -> list[Unreadable]:
    """Read some records into the table, and return those that cannot be read."""
    lines: dict[Path, bytes] = {}
    skipped: list[Unreadable] = []
    for folder, found in read_each(results / name for name in names[start : start + _AT_A_TIME]):
        if isinstance(found, RunRecord):
            lines[folder] = _line_of(folder, found)
        else:
            skipped.append(found)
    return skipped + _insert(database, lines)


def _line_of(folder: Path, record: RunRecord) -> bytes:
    name, kind = (json.dumps(text).encode() for text in (folder.name, kind_of(record)))
    stored = record.model_dump_json(include=set(_COLUMNS)).encode()
    return b'{"folder": %s, "kind": %s, "record": %s}\n' % (name, kind, stored)


def _insert(database: duckdb.DuckDBPyConnection, lines: Mapping[Path, bytes]) -> list[Unreadable]:
    """Insert records, many as one file: one by one they take fifty times as long. Return what no table can hold."""
    import duckdb

    if not lines:
        return []

    wanted = ", ".join(f'record."{name}"' for name in _COLUMNS)
    kinds = ", ".join(f'"{name}" {kind}' for name, kind in _COLUMNS.items())
    with tempfile.NamedTemporaryFile(suffix=".ndjson") as file:
        file.writelines(lines.values())
        file.flush()
        try:
            database.execute(
                f"INSERT INTO stored.records SELECT folder, kind, {wanted} FROM "
                f"read_json(?, format = 'newline_delimited', "
                f"columns = {{folder: 'VARCHAR', kind: 'VARCHAR', record: 'STRUCT({kinds})'}}, "
                f"maximum_object_size = {_LARGEST_BYTES})",
                [file.name],
            )
            return []
        except duckdb.Error as error:
            if len(lines) < 2:
                return [Unreadable(folder=folder, reason=f"{folder}: {first_line(error)}.") for folder in lines]
    folders, half = list(lines), len(lines) // 2  # one of them; find it
    parts = ({folder: lines[folder] for folder in some} for some in (folders[:half], folders[half:]))
    return [each for part in parts for each in _insert(database, part)]


def quote(path: Path) -> str:
    """Return a path for between the quotes of an SQL text."""
    return str(path).replace("'", "''")
