"""Observations of the parent of a run's process, by its own clock: times of stages and of bursts."""

from __future__ import annotations

import time
from collections.abc import Callable

from mlbench.execution.stage_times import StageTimes
from mlbench.measurement.evidence import Burst, BurstBegins, BurstEnds, Overseen
from mlbench.wire.load_progress import LoadProgress
from mlbench.wire.progress import ProgressMessage


class Overseer:
    """Notes a run's progress as it arrives."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.stages = StageTimes()
        self._clock_ns = clock_ns
        self._bursts: list[Burst] = []
        self._began_ns: int | None = None
        self._answered = self._first_ns = self._last_ns = 0

    def note(self, progress: ProgressMessage) -> None:
        """Take a message; what is odd about it is left out."""
        now_ns = self._clock_ns()
        self.stages.enter(progress.stage)
        if progress.stage == "performance" and (test := progress.read(LoadProgress)):
            self._note_answers(test.counts.answered, now_ns)
        if progress.read(BurstBegins):
            self._began_ns = now_ns
        elif (end := progress.read(BurstEnds)) and self._began_ns is not None:
            self._bursts.append(Burst(kind=end.kind, said_ns=end.lasted_ns, lasted_ns=now_ns - self._began_ns))
            self._began_ns = None

    def _note_answers(self, answered: int, now_ns: int) -> None:
        """Note when samples were answered; a test that is made again begins anew."""
        if answered == self._answered:
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
