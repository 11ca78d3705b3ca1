"""The records of a results folder as tables: read once, kept in the cache, brought up to date when asked.

Run folders never change, so a folder's name is all that tells whether its record is known.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError, UsageError
from mlbench.folders import cache_folder
from mlbench.records.run_folder import names_in
from mlbench.records.run_record import FORMAT, RECORD_FILE, read

if TYPE_CHECKING:
    import duckdb

VERSION = 2
"""Of the tables below; another one begins anew."""

_AT_A_TIME = 5000
_LARGEST_BYTES = 64 << 20
_SETTLED_NS = 2_000_000_000
"""Clocks of file systems tick as slowly as this."""

_COLUMNS = {
    **dict.fromkeys(("run_id", "mlbench_version", "workload", "backend", "scenario", "profile", "tier"), "VARCHAR"),
    **dict.fromkeys(("weights", "precision", "tag", "status", "loadgen_version"), "VARCHAR"),
    "imported": "STRUCT(path VARCHAR, division VARCHAR, submitter VARCHAR, system VARCHAR, variant VARCHAR)",
    "format": "INTEGER",
    "created": "TIMESTAMP",
    "repeat": "INTEGER",
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
    "work": "STRUCT(operations_per_sample DOUBLE, bytes_per_sample DOUBLE)",
    "roofline": "STRUCT(share DOUBLE, bound VARCHAR)",
    "samples": "MAP(VARCHAR, BIGINT)",
    "settings": "JSON",
    "load": "JSON",
    "engine": "JSON",
    "runtime": "JSON",
    "fingerprints": "MAP(VARCHAR, VARCHAR)",
    "environment": (
        "STRUCT(machine VARCHAR, cpu STRUCT(model VARCHAR), allowance STRUCT(threads INTEGER), "
        "accelerators STRUCT(name VARCHAR)[], os VARCHAR, kernel VARCHAR, python VARCHAR, load_average DOUBLE, "
        "libraries MAP(VARCHAR, VARCHAR))"
    ),
}
"""What is read of a record, and as what."""

VIEWS = {
    "runs": """
        SELECT run_id, created, tag, repeat, workload, backend, scenario, precision, profile, tier, weights, status,
            verdict.is_valid, verdict.is_accurate, verdict.is_conformant, result."value", result.unit,
            result.higher_is_better, failure.kind AS failure, failure.message AS failure_message,
            duration_ns, overhead_ns_per_sample, peak_memory_bytes, energy.joules, energy.joules_per_sample,
            energy.joules / energy.seconds AS watts,
            work.operations_per_sample, work.bytes_per_sample, roofline.share AS ceiling_share,
            samples['issued'] AS samples,
            environment.machine, environment.cpu.model AS cpu, environment.allowance.threads AS threads,
            environment.accelerators[1].name AS accelerator, len(environment.accelerators) AS accelerators,
            environment.os, environment.kernel, environment.python, environment.load_average,
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
}
"""What a question may be asked of."""


def indexed(results: Path) -> Path:
    """Return a DuckDB file with the records of all run folders, brought up to date.

    Raises:
        UsageError: the folder holds no runs, or another process is reading it in this moment.
        DataError: a record cannot be read.
    """
    import duckdb

    if not results.is_dir():
        raise _no_runs(results)
    changed_ns = _changed_ns(results)
    key = hashlib.sha256(f"{VERSION} {results.resolve()}".encode()).hexdigest()[:16]
    file = cache_folder() / "records" / f"{key}.duckdb"
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with duckdb.connect(file) as database:
            if not _is_current(database, changed_ns):
                _bring_up_to_date(database, results)
                _stamp(database, changed_ns)
            (count,) = database.execute("SELECT count(*) FROM records").fetchall()[0]
    except duckdb.IOException as error:
        raise UsageError(
            f"the index of {results} cannot be opened: {_first_line(error)}.", hint="Is another query running?"
        ) from None
    if not count:
        raise _no_runs(results)
    return file


def has_runs(results: Path) -> bool:
    """Return whether a folder holds a run."""
    return results.is_dir() and any((results / name / RECORD_FILE).is_file() for name in names_in(results))


def folders_where(results: Path, **fields: str) -> list[Path]:
    """Return the run folders whose records have these values (``tag="nightly"``), oldest first; raises as `indexed`."""
    import duckdb

    conditions = "".join(f' AND "{name}" = ?' for name in fields)
    with duckdb.connect(indexed(results), read_only=True) as database:
        found = database.execute(
            f"SELECT folder FROM records WHERE true{conditions} ORDER BY folder", list(fields.values())
        ).fetchall()
    return [results / name for (name,) in found]


def _no_runs(results: Path) -> UsageError:
    return UsageError(f"no runs in {results}.", hint="Measure something with `mlbench run`.")


def _changed_ns(results: Path) -> int:
    """Return when a run folder last came or went; 0 where that was too little ago to tell the next change from it."""
    changed_ns = results.stat().st_mtime_ns
    return changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else 0


def _is_current(database: duckdb.DuckDBPyConnection, changed_ns: int) -> bool:
    """Tell whether nothing came or went since the tables were last brought up to date."""
    database.execute("CREATE TABLE IF NOT EXISTS seen (changed_ns BIGINT)")
    return changed_ns > 0 and database.execute("SELECT changed_ns FROM seen").fetchall() == [(changed_ns,)]


def _stamp(database: duckdb.DuckDBPyConnection, changed_ns: int) -> None:
    database.execute("DELETE FROM seen")
    database.execute("INSERT INTO seen VALUES (?)", [changed_ns])


def _bring_up_to_date(database: duckdb.DuckDBPyConnection, results: Path) -> None:
    columns = ", ".join(f'"{name}" {kind}' for name, kind in _COLUMNS.items())
    database.execute(f"CREATE TABLE IF NOT EXISTS records (folder VARCHAR, {columns})")
    known = {name for (name,) in database.execute("SELECT folder FROM records").fetchall()}
    present = set(names_in(results))
    new = [name for name in present - known if (results / name / RECORD_FILE).is_file()]
    if gone := known - present:
        database.execute("DELETE FROM records WHERE folder IN (SELECT unnest(?))", [list(gone)])
    if new:
        with _transaction(database):  # so that what cannot be read leaves nothing in the tables
            _read_new(database, results, sorted(new))


@contextmanager
def _transaction(database: duckdb.DuckDBPyConnection) -> Iterator[None]:
    database.begin()
    try:
        yield
    except BaseException:
        database.rollback()
        raise
    database.commit()


def _read_new(database: duckdb.DuckDBPyConnection, results: Path, names: Sequence[str]) -> None:
    """Read records, many of them as one file of a line each: opened one by one they take fifty times as long."""
    import duckdb

    wanted = ", ".join(f'record."{name}"' for name in _COLUMNS)
    kinds = ", ".join(f'"{name}" {kind}' for name, kind in _COLUMNS.items())
    for start in range(0, len(names), _AT_A_TIME):
        part = names[start : start + _AT_A_TIME]
        with tempfile.NamedTemporaryFile(suffix=".ndjson") as file:
            for name in part:
                text = (
                    (results / name / RECORD_FILE).read_bytes().replace(b"\n", b" ")
                )  # JSON's strings have no newlines
                file.write(b'{"folder": %s, "record": %s}\n' % (json.dumps(name).encode(), text))
            file.flush()
            try:
                database.execute(
                    f"INSERT INTO records SELECT folder, {wanted} FROM read_json(?, format = 'newline_delimited', "
                    f"columns = {{folder: 'VARCHAR', record: 'STRUCT({kinds})'}}, "
                    f"maximum_object_size = {_LARGEST_BYTES})",
                    [file.name],
                )
            except duckdb.Error as error:
                _demand_readable(results, part)
                raise DataError(f"run records in {results} cannot be read: {_first_line(error)}.") from None
    foreign = "SELECT folder FROM records WHERE format IS NULL OR format NOT BETWEEN 1 AND ? ORDER BY folder"
    _demand_readable(results, [name for (name,) in database.execute(foreign, [FORMAT]).fetchall()])


def _demand_readable(results: Path, names: Sequence[str]) -> None:
    """Raise `DataError` for the first of these records that is none, in the words of every other reader."""
    for name in names:
        read(results / name)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300].rstrip(".")
