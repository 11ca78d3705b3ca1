"""SQL queries over stored runs and published results."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.errors import UsageError, first_line
from mlbench.records.csv_cells import FORMULA
from mlbench.records.published import CLAIMS, NVIDIA_TABLES, RESULTS
from mlbench.records.store.index import VIEWS, open_index, quote
from mlbench.records.store.whole_file import write_whole

if TYPE_CHECKING:
    import duckdb

_PUBLISHED = {"published": RESULTS, "nvidia_tables": NVIDIA_TABLES, "claims": CLAIMS}
"""Tables that need no run, and the files they are read from."""

_TABLES = f"Tables are {', '.join((*VIEWS, *_PUBLISHED))}; the query 'describe runs' lists the columns of one."


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(results: Path, sql: str) -> QueryResult:
    """Run a query over the records in a folder and the published results.

    The tables are `index.VIEWS` and, before a first run too, ``published``, ``nvidia_tables`` and ``claims``. The query
    can read nothing else: no file, no network. Records that cannot be read are named in a warning.

    Raises:
        UsageError: it is not SQL, or asks for an unknown table or column, or for runs if there are none.
        DataError: there are runs, and none of their records can be read.
    """
    import duckdb

    with ExitStack() as stack:
        try:
            database = stack.enter_context(connect(results))
        except UsageError:
            database = stack.enter_context(duckdb.connect())
            asked = _tables_in(database, sql)
            if asked.isdisjoint(_PUBLISHED) or not asked.isdisjoint(VIEWS):
                raise
        if _tables_in(database, sql) != {"records"}:  # all views are of that table
            _add_published(database)
        database.execute("SET enable_external_access = false; SET lock_configuration = true")
        database.execute("BEGIN TRANSACTION READ ONLY")
        return _answer(database, sql)


def _answer(database: duckdb.DuckDBPyConnection, sql: str) -> QueryResult:
    import duckdb

    try:
        found = database.execute(sql)
        if found is None or not found.description:
            raise UsageError("the query is empty.", hint=_TABLES)
        return QueryResult(columns=tuple(column[0] for column in found.description), rows=tuple(found.fetchall()))
    except (duckdb.Error, ValueError, OverflowError) as error:  # the others: a value without a Python type
        raise UsageError(f"the query failed: {first_line(error).rstrip('.!')}.", hint=_TABLES) from None


def export(results: Path, file: Path, kind: str) -> int:
    """Write the table ``runs`` to a Parquet or CSV file, and return its number of rows.

    In CSV a text that a spreadsheet would take for a formula has an apostrophe before it.

    Raises:
        UsageError: there are no runs, or the file cannot be written.
        DataError: there are runs, and none of their records can be read.
    """
    import duckdb

    options = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER"}[kind]
    try:
        with connect(results) as database, tempfile.TemporaryDirectory() as scratch:
            made = Path(scratch, "runs")
            columns = _texts_without_formulas(database) if kind == "csv" else "*"
            database.execute(f"COPY (SELECT {columns} FROM runs ORDER BY run_id) TO '{quote(made)}' ({options})")
            (count,) = database.execute("SELECT count(*) FROM runs").fetchall()[0]
            write_whole(file, made.read_bytes())
    except (OSError, duckdb.Error) as error:
        raise UsageError(f"file cannot be written: {file}: {first_line(error)}.") from None
    return int(count)


def _texts_without_formulas(database: duckdb.DuckDBPyConnection) -> str:
    """Return what to select of ``runs`` for a spreadsheet: `csv_cells.csv_text` of each text, in SQL."""
    texts = [name for name, kind, *_ in database.execute("DESCRIBE runs").fetchall() if kind == "VARCHAR"]
    guarded = [f"if(regexp_matches({name}, '{FORMULA}'), '''' || {name}, {name}) AS {name}" for name in texts]
    return f"* REPLACE ({', '.join(guarded)})"


def _tables_in(database: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """Return the tables that a query reads, in lower case, those behind views too; none where it cannot be parsed."""
    import duckdb

    try:
        return {name.lower() for name in database.get_table_names(sql)}
    except duckdb.Error:
        return set()


@contextmanager
def connect(results: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a database with the views over a folder's records, which it cannot change; raises as `index.open_index`."""
    with open_index(results) as database:
        for name, sql in VIEWS.items():
            database.execute(f"CREATE VIEW {name} AS {sql.replace('FROM records', 'FROM stored.records')}")
        yield database


def _add_published(database: duckdb.DuckDBPyConnection) -> None:
    """Add the published results, NVIDIA's tables and the claims."""
    for name, file in _PUBLISHED.items():
        with resources.as_file(resources.files("mlbench_published").joinpath(file)) as csv:
            source = f"read_csv('{quote(csv)}', header = true, sample_size = -1)"
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}")
