"""The rows of a query as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable

from mlbench.records.csv_cells import csv_text
from mlbench.records.store.query import QueryResult
from mlbench.reports.text_table import TextTable
from mlbench.reports.units import duration, finite, quantity, size

_VALUE, _UNIT = "value", "unit"
_SPELLED = ((re.compile(r"(^|_)ns($|_per_)"), duration), (re.compile(r"_bytes($|_per_)"), size))
"""Formats of columns of numbers, by column name."""


def answer_table(answer: QueryResult) -> TextTable:
    """Return the rows as a table; times, sizes and results have suitable units.

    Times are columns such as ``duration_ns`` or ``ns``, sizes such as ``peak_memory_bytes``. A column ``value`` beside
    a column ``unit`` takes the unit in, and that column is left out.
    """
    units = answer.columns.index(_UNIT) if {_VALUE, _UNIT} <= set(answer.columns) else None
    shown = [place for place in range(len(answer.columns)) if place != units]
    spelling = {place: _spelling(answer.columns[place], units) for place in shown}
    table = TextTable()
    for place in shown:
        table.add_column(answer.columns[place], overflow="fold", justify="right" if spelling[place] else "left")
    for row in answer.rows:
        unit = "" if units is None else row[units]
        table.add_row(*(_format_cell(row[place], spelling[place], unit) for place in shown))
    return table


def _spelling(column: str, units: int | None) -> Callable[[float, str], str] | None:
    """Return the format of a column's numbers, given one and its unit; None: unchanged."""
    if units is not None and column == _VALUE:
        return quantity
    for pattern, spell in _SPELLED:
        if pattern.search(column):
            return lambda value, _: spell(value)
    return None


def answer_json(answer: QueryResult) -> str:
    """Return a JSON array with an object per row; NaN becomes null, and types that JSON lacks become text."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return json.dumps(finite(rows), indent=2, default=str, allow_nan=False)


def answer_csv(answer: QueryResult) -> str:
    """Return CSV with a header; a text that looks like a formula gets an apostrophe in front."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, answer.columns))
    writer.writerows(map(_csv_cell, row) for row in answer.rows)
    return text.getvalue()


def _csv_cell(value: object) -> object:
    return csv_text(value) if isinstance(value, str) else value


def _format_cell(value: object, spell: Callable[[float, str], str] | None, unit: object) -> str:
    if value is None:
        return ""
    if spell and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return spell(value, str(unit or "")).rstrip()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
