"""How much faster one set of repeats is than another, and how sure that is.

Student's t and the normal distribution come from `scipy.special`: loading `scipy.stats`, which has the same and is
needed for the bootstrap, takes longer than the rest of a usual comparison.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 20240828
_FEW = 10
_ENOUGH_FOR_HUMPS = 5
_TWO_HUMPED_BELOW = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How many times as fast the new runs are: 1.1 is ten percent more samples a second, or ten percent less time."""

    ratio: float
    """Of the geometric means."""
    low: float
    high: float
    """Ends of the interval, at 95 % confidence."""
    p_value: float | None
    """Of Welch's test; None where no test was possible."""


def effect_of(base: Sequence[float], new: Sequence[float], *, higher_is_better: bool) -> Effect:
    """Compare repeats: a value per run, at least two on each side, all positive.

    Everything happens on logarithms, since speeds vary by factors. The interval is a bootstrap over repeats (BCa);
    below ten of them that is too narrow, and Welch's interval counts. The seed is fixed, so the same runs give the same
    numbers.
    """
    sign = 1 if higher_is_better else -1
    one, other = sign * np.log(base), sign * np.log(new)
    difference = float(other.mean() - one.mean())
    if np.ptp(one) == 0 and np.ptp(other) == 0:
        return Effect(
            ratio=math.exp(difference),
            low=math.exp(difference),
            high=math.exp(difference),
            p_value=1.0 if difference == 0 else 0.0,
        )
    low, high, p_value = _welch(one, other)
    if min(len(one), len(other)) >= _FEW:
        low, high = _bootstrap(one, other)
    return Effect(ratio=math.exp(difference), low=math.exp(low), high=math.exp(high), p_value=p_value)


def _welch(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """Return the interval of the difference of means, and the p-value of Welch's test; one of them varies."""
    from scipy import special

    difference, freedoms = float(other.mean() - one.mean()), (len(one) - 1, len(other) - 1)
    errors = one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)
    error = math.sqrt(sum(errors))
    freedom = sum(errors) ** 2 / sum(each**2 / count for each, count in zip(errors, freedoms, strict=True))
    reach = float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    return difference - reach, difference + reach, p_value


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return p-values of several tests, corrected so that many tests do not make a false alarm likely.

    Source: Benjamini and Hochberg, 1995.
    """
    order = np.argsort(p_values)[::-1]
    ranks = np.arange(len(order), 0, -1)
    found = np.empty(len(order))
    found[order] = np.minimum.accumulate(np.asarray(p_values)[order] * len(order) / ranks)
    return [float(value) for value in found]


def _bootstrap(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return the BCa interval of the difference of means; the percentile one where BCa has none."""
    from scipy import stats

    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            found = stats.bootstrap(
                (other, one),
                lambda new, base, axis: new.mean(axis=axis) - base.mean(axis=axis),
                confidence_level=CONFIDENCE,
                n_resamples=_RESAMPLES,
                method=method,
                rng=np.random.default_rng(_SEED),
            ).confidence_interval
        if np.isfinite([found.low, found.high]).all():
            break
    return float(found.low), float(found.high)


def mean_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the geometric mean of repeats and the ends of its interval at 95 %; of a single value the ends are None.

    Student's t on the logarithms: as many repeats as runs have are too few for a bootstrap.
    """
    from scipy.special import stdtrit

    logarithms = np.log(np.asarray(values, dtype=float))
    mean, count = float(logarithms.mean()), len(values)
    if count < 2:
        return math.exp(mean), None, None
    reach = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2) * logarithms.std(ddof=1) / math.sqrt(count))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def is_two_humped(values: Sequence[float]) -> bool:
    """Tell whether repeats fall into two heaps, as when a machine has two speeds: their mean then means nothing.

    Hartigan's dip test at 1 %; fewer than five values are never called so.
    """
    from diptest import diptest

    if len(values) < _ENOUGH_FOR_HUMPS or min(values) == max(values):
        return False
    return bool(diptest(np.log(np.asarray(values, dtype=float)))[1] < _TWO_HUMPED_BELOW)


def percentile_interval(latency_ns: Mapping[float, int], percentile: float, queries: int) -> tuple[int, int]:
    """Return the interval of a percentile from one run's order statistics, without assuming a distribution.

    How many of n latencies lie below the true percentile is binomial, so the ranks n p -+ 1.96 sqrt(n p (1 - p))
    enclose it. LoadGen logs some percentiles only: each rank becomes the next one outwards, which widens the interval.

    Args:
        latency_ns: by fraction: 0.9 -> the 90th percentile; with 0.0 (the least) and 1.0 (the greatest).
        percentile: the one in question, as a fraction.
        queries: how many latencies there were.
    """
    from scipy.special import ndtri

    spread = float(ndtri(0.5 + CONFIDENCE / 2)) * math.sqrt(percentile * (1 - percentile) / queries)
    low = max(fraction for fraction in latency_ns if fraction <= max(0.0, percentile - spread))
    high = min(fraction for fraction in latency_ns if fraction >= min(1.0, percentile + spread))
    return latency_ns[low], latency_ns[high]
