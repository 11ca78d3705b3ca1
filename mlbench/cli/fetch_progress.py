"""Progress of a fetch: one line that is redrawn; without a terminal, a line a minute."""

from __future__ import annotations

import threading
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from mlbench.cli.output import echo_line

QUIET_PERIOD_S = 60.0


class FetchProgress:
    """Shows the current artifact and the bytes received."""

    def __init__(self, total_bytes: int, *, quiet_period_s: float = QUIET_PERIOD_S) -> None:
        """Start to show progress; the total may be an estimate."""
        console = Console(stderr=True)
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bar = Progress(TextColumn("{task.description}"), *columns, console=console, transient=True)
        self._task = self._bar.add_task("", total=total_bytes or None)
        self._has_terminal = console.is_interactive
        self._quiet_period_s = quiet_period_s
        self._printed_s = time.monotonic()
        self._total_bytes = total_bytes
        self._come_bytes = 0
        self._step = ""
        self._counting = threading.Lock()

    def __enter__(self) -> Self:
        if self._has_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_terminal:
            self._bar.stop()

    def on_step(self, step: str) -> None:
        """Show the name of a step that begins."""
        self._step = step
        self._bar.update(self._task, description=step)
        if not self._has_terminal:
            echo_line(step, to_stderr=True)

    def on_bytes(self, count: int) -> None:
        """Count received bytes; several threads call it."""
        with self._counting:
            self._come_bytes += count
            self._bar.advance(self._task, count)
            now = time.monotonic()
            if self._has_terminal or now - self._printed_s < self._quiet_period_s:
                return
            self._printed_s = now
        echo_line(f"{self._step}: {self._come_bytes / 1e9:.1f} of {self._total_bytes / 1e9:.1f} GB", to_stderr=True)
