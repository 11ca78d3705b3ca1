"""How late pieces were sent: percentiles, and the throughput up to which they were in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_STEP_S = 1e-5
"""Resolution of percentiles."""

_STEPS = 100_000
"""Steps that are told apart: to one second."""

_FEWEST = 100
"""Pieces of a second that is judged: 1 % of fewer is less than one."""

IN_TIME_S = 1e-3
"""Lateness up to which a piece is in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessReport:
    """Lateness of all pieces in seconds."""

    pieces: int
    p50_s: float
    p99_s: float
    most_s: float
    in_time_per_s: int
    """Most pieces in a second of which 99 % were in time."""
    late_per_s: int | None
    """Fewest pieces, above that, in a second of which fewer were in time; None: there was no such second."""


class Lateness:
    """Counts pieces by how late they were."""

    def __init__(self) -> None:
        self._steps = [0] * (_STEPS + 1)
        self._most_s = 0.0
        self._second = 0
        self._sent = self._late = 0  # in this second
        self._seconds: list[tuple[int, int]] = []

    def add(self, due_s: float, now_s: float) -> None:
        """Count a piece that was due, and is sent now."""
        late_s = now_s - due_s
        self._steps[min(int(late_s / _STEP_S), _STEPS)] += 1
        self._most_s = max(self._most_s, late_s)
        if int(now_s) != self._second:
            self._end_second()
            self._second = int(now_s)
        self._sent += 1
        self._late += late_s > IN_TIME_S

    def report(self) -> LatenessReport:
        """Return percentiles, to the step above, and the throughput that was kept."""
        self._end_second()
        kept = max((sent for sent, late in self._seconds if late <= sent / 100), default=0)
        return LatenessReport(
            pieces=sum(self._steps),
            p50_s=self._percentile_s(0.5),
            p99_s=self._percentile_s(0.99),
            most_s=self._most_s,
            in_time_per_s=kept,
            late_per_s=min((sent for sent, _ in self._seconds if sent > kept), default=None),
        )

    def _end_second(self) -> None:
        if self._sent >= _FEWEST:
            self._seconds.append((self._sent, self._late))
        self._sent = self._late = 0

    def _percentile_s(self, share: float) -> float:
        return min(self._most_s, (_place(self._steps, share) + 1) * _STEP_S)


def _place(counts: Sequence[int], share: float) -> int:
    """Return the first place up to which the counts hold a share of their sum."""
    wanted, found = share * sum(counts), 0
    for place, count in enumerate(counts):
        found += count
        if found >= wanted:
            return place
    return len(counts) - 1
