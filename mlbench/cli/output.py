"""What commands print. All of it passes here, so that nothing in a record or a plugin's words acts on a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from mlbench.reports.plain_text import json_text, single_line, terminal_text


def echo(text: object = "", *, to_stderr: bool = False, newline: bool = True, color: str | None = None) -> None:
    """Print text, of one or more lines; results go to standard output, progress and faults to standard error."""
    click.secho(terminal_text(str(text)), err=to_stderr, nl=newline, fg=color)


def echo_line(text: object, *, to_stderr: bool = False, color: str | None = None) -> None:
    """Print text on one line, whatever ends of lines are in it."""
    echo(single_line(str(text)), to_stderr=to_stderr, color=color)


def echo_heading(text: str) -> None:
    """Print a heading."""
    click.secho(single_line(text), bold=True)


def echo_json(text: str) -> None:
    """Print a JSON document."""
    click.echo(json_text(text))


class _Log(logging.Handler):
    """Prints a line per message, and none twice: a command may come upon the same thing on several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self._printed = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # an argument that cannot be spelled
            line = f"{record.levelname} {record.name}: {record.msg}"
        if line not in self._printed:
            self._printed.add(line)
            echo_line(line, to_stderr=True)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Print what is logged meanwhile, as far as the root logger's level lets it through."""
    root, handler, level = logging.getLogger(), _Log(), logging.getLogger().level
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
