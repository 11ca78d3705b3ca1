"""Intervals at 95 % confidence, by NumPy alone: an import of SciPy would take longer than a short test's warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

import numpy as np

_TAIL = 0.025
_Z = NormalDist().inv_cdf(1 - _TAIL)

BATCHES = 10
_T = 2.2622
"""Student's t at 97.5 % for ten batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval; None: it has no bound on that side, or too little was seen for one."""

    value: float
    low: float | None = None
    high: float | None = None


def rank_interval(count: int, share: float) -> tuple[int | None, int | None]:
    """Return the ranks, from 0, between which a percentile of so many independent values lies.

    The number of values below the percentile is binomial, so its 2.5 and 97.5 % points bound the ranks (David and
    Nagaraja, Order Statistics, 7.1). None: not even the least or the greatest value is a bound.
    """
    ranks = np.arange(1, count + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log((count - ranks + 1) / ranks) + math.log(share / (1 - share)))])
    at_most = np.cumsum(np.exp(logs + count * math.log(1 - share)))
    low = int(np.searchsorted(at_most, _TAIL, side="right")) - 1
    high = int(np.searchsorted(at_most, 1 - _TAIL))
    return (low if low >= 0 else None), (high if high < count else None)


def share_interval(within: int, count: int) -> Estimate:
    """Return a share with Wilson's interval (1927); 0 of 0 is 0 without one."""
    if not count:
        return Estimate(value=0.0)
    share, weight = within / count, _Z**2 / count
    middle = (share + weight / 2) / (1 + weight)
    reach = _Z * math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    return Estimate(value=share, low=max(0.0, middle - reach), high=min(1.0, middle + reach))


def rate_interval(batches: Sequence[float]) -> Estimate:
    """Return the mean of the rates in `BATCHES` parts of equal length, with Student's interval (batch means)."""
    reach = _T * stdev(batches) / math.sqrt(len(batches))
    return Estimate(value=fmean(batches), low=max(0.0, fmean(batches) - reach), high=fmean(batches) + reach)
