"""How far a run is: two lines that go away; without a terminal, a line a minute from its first sign of life."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.status import Status
from rich.text import Text

from mlbench.cli.output import echo_line
from mlbench.reports.progress import RunProgress

QUIET_PERIOD_S = 60.0
_LOOKS_PER_S = 4
"""Often enough for a clock, and nearly nothing beside what is measured."""


class Progress:
    """Shows what a run is doing while it does it."""

    def __init__(self, run: RunProgress, *, quiet_period_s: float = QUIET_PERIOD_S) -> None:
        """Begin to show a run; without a terminal a line each ``quiet_period_s``."""
        console = Console(stderr=True)
        self._run = run
        self._quiet_period_s = quiet_period_s
        self._lines = Status(_Lines(run), console=console, refresh_per_second=_LOOKS_PER_S)
        self._has_terminal = console.is_interactive
        self._over = threading.Event()
        self._reporter: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._has_terminal:
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_terminal:
            self._lines.stop()
        self._over.set()
        if self._reporter:
            self._reporter.join()

    def on_progress(self, message: Mapping[str, Any]) -> None:
        """Handle a progress message from the run."""
        self._run.on_progress(message, time.monotonic())
        if not self._has_terminal and not self._reporter:
            # errors in a request show in the first stage; print nothing before them
            self._reporter = threading.Thread(target=self._report, name="mlbench-progress", daemon=True)
            self._reporter.start()

    def _report(self) -> None:
        """Print a line each period, also while a stage says nothing."""
        while not self._over.wait(self._quiet_period_s):
            echo_line(self._run.line(time.monotonic()), to_stderr=True)


class FollowedRun:
    """A run that is shown among others."""

    def __init__(self, run: RunProgress) -> None:
        self._run = run

    def on_progress(self, message: Mapping[str, Any]) -> None:
        """Handle a progress message from the run."""
        self._run.on_progress(message, time.monotonic())


class LanesProgress:
    """Shows what runs are doing that go on side by side: how far the whole is, then a line for each lane.

    Without a terminal they are printed once in a period, from the first sign of life.
    """

    def __init__(self, *, quiet_period_s: float = QUIET_PERIOD_S) -> None:
        """Begin to show runs; none is there yet."""
        console = Console(stderr=True)
        self._runs: dict[int, RunProgress] = {}
        self._newest: RunProgress | None = None
        self._lock = threading.Lock()
        self._quiet_period_s = quiet_period_s
        self._status = Status(_Lines(self), console=console, refresh_per_second=_LOOKS_PER_S)
        self._has_terminal = console.is_interactive
        self._over = threading.Event()
        self._reporter = threading.Thread(target=self._report, name="mlbench-progress", daemon=True)

    def __enter__(self) -> Self:
        if self._has_terminal:
            self._status.start()
        else:
            self._reporter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_terminal:
            self._status.stop()
        self._over.set()
        if not self._has_terminal:
            self._reporter.join()

    @contextmanager
    def follow(self, lane: int, run: RunProgress) -> Iterator[FollowedRun]:
        """Show a run on a lane."""
        with self._lock:
            self._runs[lane] = self._newest = run
        try:
            yield FollowedRun(run)
        finally:
            with self._lock:
                del self._runs[lane]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the lines away while something is printed; for one thread at a time."""
        if self._has_terminal:
            self._status.stop()
        try:
            yield
        finally:
            if self._has_terminal and not self._over.is_set():
                self._status.start()

    def lines(self, now_s: float) -> list[str]:
        """Return how far the whole is, and what each lane does."""
        with self._lock:
            if not self._newest:
                return []
            whole = self._newest.lines(now_s)[0]
            return [whole, *(f"lane {lane}: {run.stage(now_s)}" for lane, run in sorted(self._runs.items()))]

    def _report(self) -> None:
        while not self._over.wait(self._quiet_period_s):
            for line in self.lines(time.monotonic()):
                echo_line(line, to_stderr=True)


class _Lines:
    """The lines as rich draws them: cut at the terminal's edge."""

    def __init__(self, run: RunProgress | LanesProgress) -> None:
        self._run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(self._run.lines(time.monotonic())), overflow="ellipsis", no_wrap=True)
