"""Output of all commands: everything goes through here, so that no control character reaches the terminal."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from textwrap import wrap

import click

from mlbench.reports.plain_text import json_text, single_line, terminal_text

LEAST_WIDTH = 40
"""Least width in columns; on a narrower terminal lines wrap."""


def echo(text: object = "", *, to_stderr: bool = False, newline: bool = True, color: str | None = None) -> None:
    """Print one or more lines; results go to standard output, progress and errors to standard error."""
    click.secho(terminal_text(str(text)), err=to_stderr, nl=newline, fg=color)


def echo_line(text: object, *, to_stderr: bool = False, color: str | None = None) -> None:
    """Print text on one line, also when it contains line breaks."""
    echo(single_line(str(text)), to_stderr=to_stderr, color=color)


def terminal_width(*, to_stderr: bool = False) -> int | None:
    """Return the width to print in: the terminal's, or ``COLUMNS``; None when the output is not a terminal."""
    if not (sys.stderr if to_stderr else sys.stdout).isatty() and "COLUMNS" not in os.environ:
        return None
    return max(LEAST_WIDTH, shutil.get_terminal_size().columns)


def echo_wrapped(text: str, indent: int, *, to_stderr: bool = False, color: str | None = None) -> None:
    """Print text on one line, or wrapped to the terminal's width with a hanging indent."""
    width = terminal_width(to_stderr=to_stderr)
    line = single_line(text)
    if width and len(line) > width:
        hanging = " " * min(indent, width // 2)
        line = "\n".join(wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False))
    echo(line, to_stderr=to_stderr, color=color)


def echo_heading(text: str) -> None:
    """Print a heading."""
    click.secho(single_line(text), bold=True)


def echo_json(text: str) -> None:
    """Print a JSON document."""
    click.echo(json_text(text))


def echo_facts(facts: object) -> None:
    """Print facts as a JSON document."""
    echo_json(json.dumps(facts, indent=2))


class _Log(logging.Handler):
    """Prints each message once, on one line: a command may meet the same problem several times."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self._printed = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # an argument whose __str__ fails
            line = f"{record.levelname} {record.name}: {record.msg}"
        if line not in self._printed:
            self._printed.add(line)
            echo_line(line, to_stderr=True)


@cache
def spare_search_for_garbage() -> None:
    """Exclude all current objects from garbage collection at the end of the process; for commands that only read.

    Collection is a tenth of their time. Call it once, before plugins are loaded: some libraries complain at exit about
    their objects that were not collected.
    """
    gc.freeze()


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Print log messages of the block to standard error, at the root logger's level."""
    root, handler, level = logging.getLogger(), _Log(), logging.getLogger().level
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
