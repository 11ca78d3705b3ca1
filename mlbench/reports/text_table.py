"""Tables on a terminal whose cells are text and nothing else."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from mlbench.reports.plain_text import single_line


class TextTable(Table):
    """A table that takes a heading or cell as it stands: brackets are no markup, control characters can be read."""

    def add_column(self, header: RenderableType = "", *others: Any, **more: Any) -> None:
        """Add a column, as `Table.add_column`."""
        super().add_column(_as_it_stands(header), *others, **more)

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add a row, as `Table.add_row`."""
        super().add_row(*(None if cell is None else _as_it_stands(cell) for cell in cells), **more)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line as it stands."""
    console.print(Text(single_line(text), style=style))


def _as_it_stands(cell: RenderableType) -> RenderableType:
    if isinstance(cell, Text):
        return Text(single_line(cell.plain), style=cell.style)
    return Text(single_line(cell)) if isinstance(cell, str) else cell
