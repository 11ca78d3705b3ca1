"""Chooses the rates of a curve of throughput against latency: more of them towards saturation."""

from __future__ import annotations

import math

_RANGE = 16
"""The highest rate over the lowest."""

LEAST, USUAL, MOST = 4, 7, 32
"""Points of a curve: those that are always there, the draft's least number, and its largest."""

_DIGITS = 3


def mandatory_points(lowest: int, highest: int) -> tuple[int, int, int, int]:
    """Return the four loads that each curve has: the ends, and two that are spaced by powers of two.

    Source: the draft rules of MLPerf Endpoints: I = log2(Cmax - Cmin) / 3, low = round(Cmin + 2^I),
    medium = round(Cmin + 2^(2 I)).
    """
    step = math.log2(highest - lowest) / 3
    return lowest, round(lowest + 2**step), round(lowest + 2 ** (2 * step)), highest


def curve_rates(most_per_s: float, points: int = USUAL) -> tuple[float, ...]:
    """Return the rates of a curve, ascending: the four mandatory ones, and others that halve the widest gap left.

    Args:
        most_per_s: what the system completes with all samples at once, above 0.
        points: how many, `LEAST` to `MOST`.
    """
    shares = [load / _RANGE for load in mandatory_points(1, _RANGE)]
    while len(shares) < points:
        gap = max(range(len(shares) - 1), key=lambda index: (shares[index + 1] - shares[index], index))
        shares.insert(gap + 1, (shares[gap] + shares[gap + 1]) / 2)
    return tuple(float(f"{share * most_per_s:.{_DIGITS}g}") for share in shares)
