"""Tables for the page's template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
class HtmlTable:
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
    rows: Sequence[Sequence[TableCell | str]],
    *,
    is_sortable: bool = False,
    is_stacked: bool = False,
) -> HtmlTable:
    """Return a table; a heading that ends in ``#`` is of numbers."""
    return HtmlTable(
        caption=caption,
        columns=tuple(Column(each.removesuffix("#"), each.endswith("#")) for each in columns),
        rows=tuple(tuple(TableCell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows),
        is_sortable=is_sortable,
        is_stacked=is_stacked,
    )
