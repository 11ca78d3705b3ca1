"""The file with which LoadGen overrides the settings of a test that audits a run; gone after the test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_FILE = "no audit file"
"""A name that no file has: without one LoadGen takes ``audit.config`` from the current folder."""


@contextmanager
def hand_over(text: str) -> Iterator[str]:
    """Give the path of a temporary file with this text; of no file where it is empty."""
    if not text:
        yield NO_FILE
        return
    with tempfile.TemporaryDirectory(prefix="mlbench-audit-") as folder:
        file = Path(folder) / "audit.config"
        file.write_text(text, encoding="utf-8")
        yield str(file)
