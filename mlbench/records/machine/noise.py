"""The noise of a machine: a noisy one gives numbers that cannot be reproduced."""

from __future__ import annotations

import time
from dataclasses import dataclass

_SECONDS = 1.0
_STEPS = 20_000
_STEADY_SPREAD = 0.05
_BUSY_SPREAD = 1.0
_SHORT_PAUSE_NS = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Timing statistics of a small piece of work, repeated for a second."""

    spread: float
    """The middle 90 % of the times, over their median: 0.02 on a quiet machine."""
    longest_pause_ns: int
    """The slowest time minus the median: another process had the processor."""

    @property
    def is_quiet(self) -> bool:
        """Whether differences of a few percent between runs can be significant."""
        return self.spread <= _STEADY_SPREAD and self.longest_pause_ns <= _SHORT_PAUSE_NS

    @property
    def is_busy(self) -> bool:
        """Whether the work was interrupted so often that the spread is that of other programs."""
        return self.spread > _BUSY_SPREAD


def measure_noise(seconds: float = _SECONDS) -> Noise:
    """Repeat a small piece of work for a while, and measure how its time varies."""
    times_ns: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times_ns) < 20:
        started_ns = time.perf_counter_ns()
        sum(range(_STEPS))
        times_ns.append(time.perf_counter_ns() - started_ns)
    times_ns.sort()
    low, median, high = (times_ns[int(len(times_ns) * share)] for share in (0.05, 0.5, 0.95))
    return Noise(spread=(high - low) / median, longest_pause_ns=times_ns[-1] - median)
