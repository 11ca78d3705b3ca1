"""Terminal tables whose cells are plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.box import HEAVY_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

from mlbench.reports.plain_text import single_line
from mlbench.reports.table import ReportTable

WIDTH = 160
"""Width of a table that is written to a file or a pipe."""
LEAST_CROPPED = 8
"""Least width of a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """A column of a table whose rows are one line each."""

    heading: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "left"
    is_cropped: bool = False
    """Whether its cells may be cut, with an ellipsis, if the table is too wide."""
    wraps: bool = False
    """Whether its cells may wrap instead."""

    @property
    def width(self) -> int:
        """Width of the widest cell or the heading."""
        return max(map(cell_len, (self.heading, *map(single_line, self.cells))))


def fit_columns(choices: Iterable[Sequence[TextColumn]], width: int) -> Sequence[TextColumn]:
    """Return the first of several sets of columns that fits a width without a frame; else the last, cropped."""
    columns: Sequence[TextColumn] = ()
    for columns in choices:
        if _plain_width(columns) <= width:
            return columns
    excess = _plain_width(columns) - width
    fitting = []
    for column in columns:
        least = max(LEAST_CROPPED, cell_len(column.heading)) if column.is_cropped else column.width
        kept = min(column.width, max(least, column.width - excess))
        excess -= column.width - kept
        fitting.append(replace(column, cells=[_crop(cell, kept) for cell in column.cells]))
    return fitting


def build_table(columns: Sequence[TextColumn], width: int, *, styles: Sequence[str] = (), **titles: str) -> TextTable:
    """Return a table of these columns: with a frame if it fits the width, else without.

    Args:
        columns: with as many cells each.
        width: of the console.
        styles: of the rows; none: plain.
        titles: ``title`` and ``caption``; brackets in them are not markup.
    """
    framed = _framed_width(columns) <= width
    look = {"box": HEAVY_HEAD} if framed else {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
    literal: dict[str, Any] = {name: Text(text) for name, text in titles.items()}
    table = TextTable(title_justify="left", caption_justify="left", **look, **literal)
    for column in columns:
        table.add_column(column.heading, justify=column.justify, no_wrap=not column.wraps, overflow="fold")
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        table.add_row(*row, style=styles[number] if styles else "")
    return table


def _framed_width(columns: Sequence[TextColumn]) -> int:
    return sum(column.width for column in columns) + 3 * len(columns) + 1


def _plain_width(columns: Sequence[TextColumn]) -> int:
    return sum(column.width for column in columns) + 2 * (len(columns) - 1)


def _crop(text: str, width: int) -> str:
    line = single_line(text)
    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…"


def wrapped_table(table: ReportTable, *, overflow: OverflowMethod = "ellipsis", **look: Any) -> TextTable:
    """Return a table whose cells wrap, with the end of a word that does not fit as ``overflow`` says.

    ``look`` is as of `rich.table.Table`, whose titles may have markup.
    """
    shown = TextTable(title_justify="left", caption_justify="left", **look)
    for column in table.columns:
        shown.add_column(column.heading, justify="right" if column.is_number else "left", overflow=overflow)
    for row in table.rows:
        shown.add_row(*(cell.text for cell in row))
    return shown


class TextTable(Table):
    """A table with literal headings and cells: brackets are not markup, control characters are escaped."""

    def add_column(self, header: RenderableType = "", *others: Any, **more: Any) -> None:
        """Add a column, as `Table.add_column`."""
        super().add_column(_as_it_stands(header), *others, **more)

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add a row, as `Table.add_row`."""
        super().add_row(*(None if cell is None else _as_it_stands(cell) for cell in cells), **more)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line literally."""
    console.print(Text(single_line(text), style=style))


def _as_it_stands(cell: RenderableType) -> RenderableType:
    if isinstance(cell, Text):
        return Text(single_line(cell.plain), style=cell.style)
    return Text(single_line(cell)) if isinstance(cell, str) else cell
