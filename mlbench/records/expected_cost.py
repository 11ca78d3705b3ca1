"""Estimated cost of the coming runs, from earlier runs of the same kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self


class Basis(IntEnum):
    """Basis of an estimate of a duration; the largest of several is that of their sum."""

    SAME = 1
    """Earlier runs of the same workload, backend, scenario, profile, tier, weights and precision."""
    SIMILAR = 2
    """Runs of the same profile and tier, of the same workload where there are any."""
    ELSEWHERE = 3
    """No such run here: runs of mini models on another machine, a small one."""
    NOTHING = 4
    """No such run: only the least duration of the tier is counted, and a run takes longer than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTime:
    """An expected duration."""

    seconds: float
    basis: Basis

    def spread(self, lanes: int) -> Self:
        """Return the duration with a number of parts in parallel."""
        return replace(self, seconds=self.seconds / lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCost:
    """The time of all runs together."""

    runs: int
    similar_runs: int
    """Runs of a kind that was never made here, guessed by others of their tier and profile."""
    elsewhere_runs: int
    """Runs with nothing to go by here, estimated from runs on another machine."""
    unknown_runs: int
    """Runs with nothing to go by; of them only the least duration is counted."""
    time: ExpectedTime
    disk_bytes: int
    """Size of the run folders."""
    peak_memory_bytes: int | None
    """Peak memory of the largest run; None where no earlier run says."""
