"""Progress of runs: two lines that are redrawn; without a terminal, a line a minute from the first progress message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from mlbench.cli.output import echo_line
from mlbench.reports.progress import RunProgress
from mlbench.wire.progress import ProgressMessage

QUIET_PERIOD_S = 60.0
ALONE = 0
"""Instead of a lane's number, for a run that has the whole machine."""
_LOOKS_PER_S = 4
"""Redraws per second: enough for a clock, and almost no load on the run."""


class Progress:
    """Shows the progress of one run, or of several at the same time, each on a lane.

    The lines are on the terminal only during a run. Without a terminal they are printed once per period, from the first
    progress message on: errors in a request come earlier.
    """

    def __init__(self, *, quiet_period_s: float = QUIET_PERIOD_S, is_quiet: bool = False) -> None:
        """Start without runs; a quiet display shows none."""
        console = Console(stderr=True, quiet=is_quiet)
        self._runs: dict[int, RunProgress] = {}
        self._newest: RunProgress | None = None
        self._lock = threading.Lock()
        self._terminal = threading.RLock()
        self._quiet_period_s = quiet_period_s
        self._is_quiet = is_quiet
        self._console = console
        self._drawn: Live | None = None
        self._has_terminal = console.is_interactive
        self._over = threading.Event()
        self._reporter: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._reporter:
            self._reporter.join()

    @contextmanager
    def follow(self, run: RunProgress, lane: int = ALONE) -> Iterator[FollowedRun]:
        """Show a run, on a lane or alone."""
        with self.paused(), self._lock:
            self._runs[lane] = self._newest = run
        try:
            yield FollowedRun(run, self)
        finally:
            with self.paused(), self._lock:
                del self._runs[lane]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Remove the lines while something is printed, by one thread at a time."""
        with self._terminal:
            if self._drawn:
                self._drawn.stop()
            try:
                yield
            finally:  # a stopped one that is started again would go up over lines that were printed meanwhile
                self._drawn = self._draw() if self._has_terminal and self._runs else None

    def _draw(self) -> Live:
        drawn = Live(_Lines(self), console=self._console, refresh_per_second=_LOOKS_PER_S, transient=True)
        drawn.start()
        return drawn

    def begin_report(self) -> None:
        """Start to print lines where there is no terminal."""
        with self._lock:
            if not self._has_terminal and not self._reporter and not self._is_quiet:
                self._reporter = threading.Thread(target=self._report, name="mlbench-progress", daemon=True)
                self._reporter.start()

    def lines(self, now_s: float) -> list[str]:
        """Return the overall progress, and the stage of each run."""
        with self._lock:
            if not self._runs or not self._newest:
                return []
            whole, stage = self._newest.lines(now_s)
            if ALONE in self._runs:
                return [whole, stage]
            return [whole, *(f"lane {lane}: {run.stage(now_s)}" for lane, run in sorted(self._runs.items()))]

    def _report(self) -> None:
        """Print lines each period, also during a stage that reports no progress."""
        while not self._over.wait(self._quiet_period_s):
            with self._lock:
                alone = self._runs.get(ALONE)
            now_s = time.monotonic()
            for line in [alone.line(now_s)] if alone else self.lines(now_s):
                echo_line(line, to_stderr=True)


class FollowedRun:
    """A run on the display."""

    def __init__(self, run: RunProgress, shown: Progress) -> None:
        self._run, self._shown = run, shown

    def on_progress(self, message: ProgressMessage) -> None:
        """Handle a progress message from the run."""
        self._run.on_progress(message, time.monotonic())
        self._shown.begin_report()


class _Lines:
    """The lines as rich draws them, cut before the terminal's edge to leave room for ``^C``."""

    def __init__(self, runs: Progress) -> None:
        self._runs = runs
        self._spinner = Spinner("dots")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._runs.lines(time.monotonic())):
            frame = Text("  ") if number else Text.assemble(str(self._spinner.render(console.get_time())), " ")
            frame.append(line)
            frame.truncate(options.max_width - len("^C"), overflow="ellipsis")
            yield frame
