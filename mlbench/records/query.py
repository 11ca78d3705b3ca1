"""Questions in SQL about stored runs and published results."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.errors import UsageError
from mlbench.records.index import VIEWS, has_runs, indexed
from mlbench.records.published import CLAIMS, NVIDIA_TABLES, RESULTS
from mlbench.records.whole_file import write_whole

if TYPE_CHECKING:
    import duckdb

_PUBLISHED = {"published": RESULTS, "nvidia_tables": NVIDIA_TABLES, "claims": CLAIMS}
"""Tables that need no run, and the files they are read from."""

_TABLES = f"Tables are {', '.join((*VIEWS, *_PUBLISHED))}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(results: Path, sql: str) -> Answer:
    """Answer a question about the records in a folder, and the published results.

    The tables are `index.VIEWS` and, before a first run too, ``published``, ``nvidia_tables`` and ``claims``. The
    question can read nothing else: no file, no network.

    Raises:
        UsageError: it is no SQL, or asks for a table or column that is not there, or for runs where there are none.
        DataError: a record cannot be read.
    """
    import duckdb

    with _connect_for(results, sql) as database:
        database.execute("SET enable_external_access = false; SET lock_configuration = true")
        try:
            found = database.execute(sql)
            if found is None or not found.description:
                raise UsageError("the query asks for nothing.", hint=_TABLES)
            return Answer(columns=tuple(column[0] for column in found.description), rows=tuple(found.fetchall()))
        except duckdb.Error as error:
            raise UsageError(
                f"the query failed: {' '.join(str(error).split())[:300]}",
                hint=_TABLES,
            ) from None


def export(results: Path, file: Path, kind: str) -> int:
    """Write the table ``runs`` to a Parquet or CSV file, and return its number of rows.

    Raises:
        UsageError: there are no runs, or the file cannot be written.
    """
    options = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER"}[kind]
    beside = file.with_name(f".{file.name}.partial")
    write_whole(beside, b"")  # refuses a folder that is not there in the words of all other files
    try:
        with connected(results) as database:
            database.execute(f"COPY (SELECT * FROM runs ORDER BY run_id) TO '{_quoted(beside)}' ({options})")
            (count,) = database.execute("SELECT count(*) FROM runs").fetchall()[0]
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
    return int(count)


def _connect_for(results: Path, sql: str) -> duckdb.DuckDBPyConnection:
    """Return a database with the tables that a question needs: without runs only the published ones."""
    try:
        return connected(results)
    except UsageError:
        if has_runs(results) or not _asks_for_published(sql):
            raise
        return _connect_published()


def _asks_for_published(sql: str) -> bool:
    """Return whether a question reads published tables and no runs."""
    import duckdb

    try:
        names = {name.lower() for name in duckdb.connect().get_table_names(sql)}
    except duckdb.Error:
        return False
    return not names.isdisjoint(_PUBLISHED) and names.isdisjoint(VIEWS)


def connected(results: Path) -> duckdb.DuckDBPyConnection:
    """Return a database with the views over a folder's records, which it cannot change; raises as `index.indexed`."""
    stored = indexed(results)
    database = _connect_published()
    database.execute(f"ATTACH '{_quoted(stored)}' AS stored (READ_ONLY)")
    for name, sql in VIEWS.items():
        database.execute(f"CREATE VIEW {name} AS {sql.replace('FROM records', 'FROM stored.records')}")
    return database


def _connect_published() -> duckdb.DuckDBPyConnection:
    """Return a database with the published results, NVIDIA's tables and the claims."""
    import duckdb

    database = duckdb.connect()
    for name, file in _PUBLISHED.items():
        with resources.as_file(resources.files("mlbench_published").joinpath(file)) as csv:
            source = f"read_csv('{_quoted(csv)}', header = true, sample_size = -1)"
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}")
    return database


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
