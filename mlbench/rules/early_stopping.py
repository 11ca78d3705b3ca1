"""Early stopping: how many queries make a percentile reliable.

With confidence 0.99 and tolerance 0, ``h(t)`` is the smallest number of queries under the limit such that a system that
meets the limit with probability exactly p would show at most t misses among ``h(t) + t`` queries with probability below
0.01.

Source: MLPerf Inference v4.1 rules, appendix Early Stopping; LoadGen's early_stopping.cc.
"""

from __future__ import annotations

from functools import cache

from mlbench.rules.official import EARLY_STOPPING_CONFIDENCE


def _is_enough(queries: int, misses: int, percentile: float) -> bool:
    """Return whether this few misses among this many queries are significant; monotonic in the queries."""
    from scipy.special import bdtr

    # 1 - 0.9 is a little below 0.1 and 1 - 0.99 a little above 0.01: rounding keeps the decimal that is meant
    return bool(bdtr(misses, queries, round(1 - percentile, 12)) < round(1 - EARLY_STOPPING_CONFIDENCE, 12))


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
