"""Progress of a run: one line that is redrawn; without a terminal, a line a minute."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from mlbench.cli.output import echo_line
from mlbench.reports.plain_text import single_line
from mlbench.reports.units import clock

if TYPE_CHECKING:
    from mlbench.runner import RunRequest

_QUIET_PERIOD_S = 60.0


class Progress:
    """Shows what a run is doing while it does it."""

    def __init__(self, request: RunRequest, number: int, of: int) -> None:
        self._name = f"[{number}/{of}] {request.workload} {request.backend} {request.scenario}"
        self._console = Console(stderr=True)
        self._status = Status(Text(self._name), console=self._console) if self._console.is_terminal else None
        self._stage = ""
        self._stage_began_s = 0.0
        self._last_line_s: float | None = None
        self._facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def on_progress(self, progress: Mapping[str, Any]) -> None:
        """Handle a progress message from the run."""
        now_s = time.monotonic()
        if self._last_line_s is None:  # errors in a request show in the first stage; print nothing before them
            self._last_line_s = now_s
        if progress["stage"] != self._stage:
            self._stage, self._stage_began_s, self._facts = progress["stage"], now_s, {}
        self._facts.update(progress)
        line = f"{self._name}: {self._stage}{self._detail(now_s - self._stage_began_s)}"
        if self._status:
            self._status.update(Text(single_line(line)))
        elif now_s - self._last_line_s > _QUIET_PERIOD_S:
            self._last_line_s = now_s
            echo_line(line, to_stderr=True)

    def _detail(self, elapsed_s: float) -> str:
        """Return samples answered so far, the estimated time left, and the progress of a slow batch."""
        step = f", step {self._facts['step']} of {self._facts['steps']}" if "step" in self._facts else ""
        answered = self._facts.get("answered")
        if answered is None:
            return step
        left_s = None
        if self._stage == "accuracy" and answered:
            left_s = elapsed_s * max(0, self._facts["samples"] / answered - 1)
        elif self._stage == "performance":
            left_s = max(0.0, self._facts["min_duration_ms"] / 1000 - elapsed_s)
        return f", {answered:,} samples" + (f", about {clock(left_s)} left" if left_s is not None else "") + step
