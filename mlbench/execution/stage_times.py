"""The duration of each stage of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping

START = "start"
"""The time before the first stage: the process begins, plugins are found."""

WARM_UP = "warm-up"
"""The stage in which the engine runs its first batches, on its own."""


class StageTimes:
    """The stages of a run, in the order in which they began, and the time spent in each."""

    def __init__(self) -> None:
        self.last = ""
        """The stage that the run is in; empty before the first."""
        self._spent_ns = Counter[str]()
        self._began_ns = time.monotonic_ns()

    @property
    def names(self) -> Collection[str]:
        """The stages that have begun."""
        return {*self._spent_ns, self.last} - {START, ""}

    def enter(self, stage: str) -> None:
        """Begin a stage, which ends the one before; one that is entered again goes on."""
        now_ns = time.monotonic_ns()
        self._spent_ns[self.last or START] += now_ns - self._began_ns
        self.last, self._began_ns = stage, now_ns

    def end(self) -> Mapping[str, int]:
        """Return the nanoseconds spent in each stage until now."""
        self.enter(self.last)
        return dict(self._spent_ns)
