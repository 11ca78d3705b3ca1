"""The answer to a query as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json

from mlbench.records.csv_cells import csv_text
from mlbench.records.query import QueryResult
from mlbench.reports.text_table import TextTable
from mlbench.reports.units import finite


def answer_table(answer: QueryResult) -> TextTable:
    """Return a table with a row per row."""
    table = TextTable()
    for column in answer.columns:
        table.add_column(column, overflow="fold")
    for row in answer.rows:
        table.add_row(*(_format_cell(value) for value in row))
    return table


def answer_json(answer: QueryResult) -> str:
    """Return a JSON array with an object per row: no number becomes null, and what JSON has no form for text."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return json.dumps(finite(rows), indent=2, default=str, allow_nan=False)


def answer_csv(answer: QueryResult) -> str:
    """Return CSV with a header; a text that a spreadsheet would take for a formula has an apostrophe before it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, answer.columns))
    writer.writerows(map(_csv_cell, row) for row in answer.rows)
    return text.getvalue()


def _csv_cell(value: object) -> object:
    return csv_text(value) if isinstance(value, str) else value


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
