"""Progress of a test, and LoadGen's conditions for its end, which a run's process reports while it measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCounts:
    """Counts of a test so far."""

    elapsed_s: float
    """Since LoadGen sent the first sample; 0 before."""
    issued: int
    """Samples."""
    answered: int
    """Samples, soundly or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """LoadGen's conditions for ending a test."""

    least_s: float
    """It sends samples for so long at least; 0 where it ends as soon as all are answered."""
    least_samples: int
    """It sends so many at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """Progress of a test: its counts, and the binding conditions."""

    counts: SampleCounts
    demand: Demand

    @property
    def samples(self) -> int:
        """Fewest samples that will be answered."""
        return max(self.demand.least_samples, self.counts.issued)

    @property
    def left_s(self) -> float | None:
        """Seconds until LoadGen may end the test, by the slower of time and counts; None where nothing tells yet."""
        elapsed_s, answered = self.counts.elapsed_s, self.counts.answered
        missing = self.samples - answered
        if missing and not (answered and elapsed_s):
            return None
        by_count_s = missing * elapsed_s / answered if missing else 0.0
        return max(0.0, self.demand.least_s - elapsed_s, by_count_s)
