"""Observations of the parent of a run's process, by its own clock: times of stages and of bursts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from mlbench.execution.stage_times import StageTimes
from mlbench.measurement.evidence import Burst, Overseen

_BEGINS, _ENDS = "burst_begins", "burst_ends"


class Overseer:
    """Notes a run's progress as it arrives."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.stages = StageTimes()
        self._clock_ns = clock_ns
        self._bursts: list[Burst] = []
        self._began_ns: int | None = None
        self._answered = self._first_ns = self._last_ns = 0

    def note(self, progress: Mapping[str, Any]) -> None:
        """Take a message; what is odd about it is left out."""
        now_ns = self._clock_ns()
        self.stages.enter(progress["stage"])
        if progress["stage"] == "performance":
            self._note_answers(progress.get("answered"), now_ns)
        if _BEGINS in progress:
            self._began_ns = now_ns
        elif _ENDS in progress and self._began_ns is not None:
            kind, said_ns = progress[_ENDS], progress.get("lasted_ns")
            if isinstance(kind, str) and type(said_ns) is int:
                self._bursts.append(Burst(kind=kind, said_ns=said_ns, lasted_ns=now_ns - self._began_ns))
            self._began_ns = None

    def _note_answers(self, answered: object, now_ns: int) -> None:
        """Note when samples were answered; a test that is made again begins anew."""
        if type(answered) is not int or answered == self._answered:
            return
        if answered < self._answered or not self._answered:
            self._first_ns = now_ns
        self._answered, self._last_ns = answered, now_ns

    @property
    def seen(self) -> Overseen:
        """Return what was noted so far."""
        return Overseen(
            stages_ns=self.stages.end(), bursts=tuple(self._bursts), answering_ns=self._last_ns - self._first_ns
        )
