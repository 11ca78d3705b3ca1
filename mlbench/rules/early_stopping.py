"""Early stopping: how many queries make a percentile reliable.

With confidence 0.99 and tolerance 0, ``h(t)`` is the smallest number of queries under the limit such that a system that
meets the limit with probability exactly p would show at most t misses among ``h(t) + t`` queries with probability below
0.01.

Source: MLPerf Inference v4.1 rules, appendix Early Stopping; LoadGen's early_stopping.cc.
"""

from __future__ import annotations

import math
from functools import cache

CONFIDENCE = 0.99
"""LoadGen's; every round asks for this one."""

_NOTHING = 1e-17
"""The part of a sum that a number of 64 bits does not show."""


def _is_enough(queries: int, misses: int, percentile: float) -> bool:
    """Return whether this few misses among this many queries are significant; monotonic in the queries."""
    # 1 - 0.9 is a little below 0.1 and 1 - 0.99 a little above 0.01: rounding keeps the decimal that is meant
    chance, most = round(1 - percentile, 12), round(1 - CONFIDENCE, 12)
    return misses < queries * chance and _chance_of_at_most(misses, queries, chance) < most


def _chance_of_at_most(misses: int, queries: int, chance: float) -> float:
    """Return how likely at most so many misses are, fewer than the mean: the binomial distribution, summed downward.

    SciPy has it as well. Importing it takes longer than all else that judging a run does.
    """
    ways = math.lgamma(queries + 1) - math.lgamma(misses + 1) - math.lgamma(queries - misses + 1)
    term = math.exp(ways + misses * math.log(chance) + (queries - misses) * math.log1p(-chance))
    total = term
    for count in range(misses, 0, -1):
        term *= count * (1 - chance) / ((queries - count + 1) * chance)
        total += term
        if term <= _NOTHING * total:  # both may be 0
            break
    return total


@cache
def queries_needed(misses: int, percentile: float) -> int:
    """Return ``h(t) + t``: how many queries a run needs when ``misses`` of them were over the limit.

    Args:
        misses: t, at least 0.
        percentile: p as a fraction: 0.99.
    """
    low, high = misses, 2 * misses + 64
    while not _is_enough(high, misses, percentile):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _is_enough(middle, misses, percentile):
            high = middle
        else:
            low = middle
    return high


@cache
def misses_allowed(queries: int, percentile: float) -> int:
    """Return the largest ``t`` for which ``queries`` are enough; -1 where they are too few even without a miss."""
    low, high = -1, queries
    while high - low > 1:
        middle = (low + high) // 2
        if _is_enough(queries, middle, percentile):
            low = middle
        else:
            high = middle
    return low
