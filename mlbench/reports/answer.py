"""The answer to a query as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json

from rich.table import Table

from mlbench.records.query import Answer
from mlbench.reports.units import finite


def answer_table(answer: Answer) -> Table:
    """Return a table with a row per row."""
    table = Table()
    for column in answer.columns:
        table.add_column(column, overflow="fold")
    for row in answer.rows:
        table.add_row(*(_spelled(value) for value in row))
    return table


def answer_json(answer: Answer) -> str:
    """Return a JSON array with an object per row: no number becomes null, and what JSON has no form for text."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return json.dumps(finite(rows), indent=2, default=str, allow_nan=False)


def answer_csv(answer: Answer) -> str:
    """Return CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows(answer.rows)
    return text.getvalue()


def _spelled(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
