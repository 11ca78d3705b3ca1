"""The official data sets of the language workloads: tables of texts and token lists, as JSON or as a pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.errors import DataError
from mlbench.system.documents import DATA_BYTES, read_json, refusal
from mlbench.toolkit.language.pickles import read_pickled_table

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTable:
    """Columns by name, each with one entry per row; row 0 is sample 0."""

    texts: Mapping[str, Sequence[str]]
    tokens: Mapping[str, Sequence[np.ndarray]]
    """(n,) int64 each, n at least 1."""


def read_table(path: Path, *, texts: Sequence[str] = (), tokens: Sequence[str] = ()) -> ColumnTable:
    """Return the named columns of a table: a JSON list with an object a row, or a pandas pickle, which may be gzip-ed.

    A file ``*.json`` is read as JSON, any other as a pickle. Other columns are passed over.

    Args:
        path: the file.
        texts: columns that hold text; a number among it is taken as it is written.
        tokens: columns that hold token ids.

    Raises:
        DataError: the file cannot be read, is of another format, holds no row, or lacks a column or an entry; an entry
            is not text, or no list of token ids, or empty.
    """
    if path.suffix == ".json":
        found = read_json(path, what="table", limit_bytes=DATA_BYTES, allows_nan=True)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise refusal(path, f"{path} is not a list of objects.")
    else:
        found = read_pickled_table(path)
    columns = {name: _column(found, name, path) for name in (*texts, *tokens)}
    if not all(columns.values()):
        raise DataError(f"{path} contains no row.")
    return ColumnTable(
        texts={name: [_text(entry, row, name, path) for row, entry in enumerate(columns[name])] for name in texts},
        tokens={name: [_ids(entry, row, name, path) for row, entry in enumerate(columns[name])] for name in tokens},
    )


def _column(table: list[Mapping[str, Any]] | Mapping[str, list[Any]], name: str, path: Path) -> list[Any]:
    """Return a column of a table that is given by rows or by columns."""
    if isinstance(table, Mapping):
        if name not in table:
            raise DataError(f"{path} has no column {name!r}.", hint=f"It has: {', '.join(table) or 'none'}.")
        return table[name]
    if (lacking := next((row for row, entries in enumerate(table) if name not in entries), None)) is not None:
        has = ", ".join(table[lacking]) or "none"
        raise DataError(f"{path} has no column {name!r} in row {lacking}.", hint=f"It has: {has}.")
    return [entries[name] for entries in table]


def _text(entry: object, row: int, name: str, path: Path) -> str:
    is_number = isinstance(entry, int | float) and math.isfinite(entry)  # pandas writes NaN for a missing entry
    if not isinstance(entry, str) and not is_number:
        raise DataError(f"{path} contains no text in column {name!r}, row {row}: {str(entry)[:40]!r}.")
    return str(entry)


def _ids(entry: object, row: int, name: str, path: Path) -> np.ndarray:
    import numpy as np

    if not isinstance(entry, list) or not all(type(token) is int and 0 <= token < 2**31 for token in entry):
        raise DataError(f"{path} contains no token ids in column {name!r}, row {row}: {str(entry)[:40]!r}.")
    if not entry:
        raise DataError(f"{path} has an empty token list in column {name!r}, row {row}.")
    return np.array(entry, np.int64)
