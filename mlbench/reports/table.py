"""A table, for the page's template, for Markdown and for the terminal (`text_table.wrapped_table`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlbench.reports.plain_text import markdown_text


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table."""

    text: str
    detail: str = ""
    """Text below, in small letters."""
    tone: str = ""
    """Style: ``good``, ``bad``, ``quiet``, or empty."""
    order: float | None = None
    """Sort key in a column of numbers."""
    link: str = ""
    """Anchor of a place on the page, without ``#``."""
    page: str = ""
    """Another page that the link leads to, by its relative address; empty: this one."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; numbers are right-aligned."""

    heading: str
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Rows under a caption; the first cell of each names it."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    is_sortable: bool = False
    is_stacked: bool = False
    """Whether each row becomes a block on a narrow screen, with the heading next to each cell, so that it fits."""


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[TableCell | str]],
    *,
    is_sortable: bool = False,
    is_stacked: bool = False,
) -> ReportTable:
    """Return a table; a heading that ends in ``#`` is of numbers."""
    return ReportTable(
        caption=caption,
        columns=tuple(Column(each.removesuffix("#"), each.endswith("#")) for each in columns),
        rows=tuple(tuple(TableCell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows),
        is_sortable=is_sortable,
        is_stacked=is_stacked,
    )


def markdown_lines(table: ReportTable) -> Iterator[str]:
    """Yield the lines of a table in Markdown; what is bad is bold."""
    yield "| " + " | ".join(markdown_text(column.heading) for column in table.columns) + " |"
    yield "|" + "|".join(" ---: " if column.is_number else " --- " for column in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(map(_markdown_cell, row)) + " |"


def _markdown_cell(cell: TableCell) -> str:
    detail = "; ".join(cell.detail.splitlines())
    text = markdown_text(f"{cell.text} ({detail})" if detail else cell.text)
    return f"**{text}**" if cell.tone == "bad" else text
