"""Numbers that equal runs repeat exactly: sizes, and counts of work. Takes numbers, and knows nothing of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlbench.comparison.effect import Effect
from mlbench.comparison.verdicts import SpeedVerdict


def compare_exactly(base: Sequence[float], new: Sequence[float], margin: float) -> tuple[Effect, str]:
    """Return the ratio of two sides, above 1 where the new one has less, and why it has no verdict.

    Args:
        base: a positive number per run.
        new: likewise.
        margin: repeats of one side that differ by more are not exact, and have no verdict.
    """
    ends = (min(base) / max(new), max(base) / min(new))
    ratio = math.exp((math.fsum(map(math.log, base)) / len(base)) - (math.fsum(map(math.log, new)) / len(new)))
    apart = max(max(side) / min(side) for side in (base, new)) - 1
    reason = f"repeats differ by {apart:.1%}, so it is no exact number" if apart > margin else ""
    return Effect(ratio=ratio, low=ends[0], high=ends[1], p_value=None), reason


def decide_exactly(effect: Effect, margin: float) -> SpeedVerdict:
    """Return the verdict on numbers without noise."""
    if 1 / (1 + margin) <= effect.ratio <= 1 + margin:
        return SpeedVerdict.SAME
    return SpeedVerdict.FASTER if effect.ratio > 1 else SpeedVerdict.SLOWER
