"""How far a test is, and what has to happen before LoadGen ends it: what a run's process reports while it measures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCounts:
    """What went through a test so far."""

    elapsed_s: float
    """Since LoadGen sent the first sample; 0 before."""
    issued: int
    """Samples."""
    answered: int
    """Samples, soundly or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What LoadGen demands of a test before it ends it."""

    least_s: float
    """It sends samples for so long at least; 0 where it ends as soon as all are answered."""
    least_samples: int
    """It sends so many at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How far a test is: the counts, and the demands that bind it."""

    elapsed_s: float
    issued: int
    answered: int
    least_s: float
    least_samples: int

    @classmethod
    def of(cls, counts: SampleCounts, demand: Demand) -> Self:
        """Return the progress of a test with these counts and demands."""
        return cls(**dataclasses.asdict(counts), **dataclasses.asdict(demand))

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return what a message of the run's process says; None where it is about no test."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: facts[name] for name in names}) if all(name in facts for name in names) else None

    @property
    def samples(self) -> int:
        """How many samples will be answered at least."""
        return max(self.least_samples, self.issued)

    @property
    def left_s(self) -> float | None:
        """Seconds until LoadGen may end the test, by the slower of time and counts; None where nothing tells yet."""
        missing = self.samples - self.answered
        if missing and not (self.answered and self.elapsed_s):
            return None
        by_count_s = missing * self.elapsed_s / self.answered if missing else 0.0
        return max(0.0, self.least_s - self.elapsed_s, by_count_s)
