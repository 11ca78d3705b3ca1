"""Model of the share of late queries over the rate: a rising line through the logits.

Late is a query beyond the limit of its latency. Below saturation the logit of their share is nearly a straight line
over the logarithm of the rate, so a few short runs show where a share is reached that none of them had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_BURST = 3.0
"""Late queries come together, behind one slow answer: their number varies so many times as much as a Poisson number."""

_WOBBLE = 0.15
"""Standard deviation of the logit from run to run, however long they are: a system is not always equally fast."""

_WOBBLE_WEIGHT = 4
"""How sure that is before anything was measured, in runs: what was seen counts for more once there are more."""

_SURE = 1.645
"""The normal distribution's 95th percentile."""

_SLOPE, _SLOPE_SPREAD, _LEAST_SLOPE = 20.0, 15.0, 5.0
"""What the slope is before anything was measured, how sure that is, and the least that is believed. Half a percent more
load, and a tenth more are late: so it is for one queue whose limit is ten times the time of an answer."""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The result of one run."""

    rate_per_s: float
    answered: int
    late: int

    @property
    def share(self) -> float:
        """Return the share of late queries."""
        return self.late / self.answered if self.answered else 1.0


@dataclass(frozen=True, slots=True)
class LateShareFit:
    """A line: the logit of the share of late queries over the logarithm of the rate."""

    log_rate: float
    """The logarithm of the rate at which ``logit`` is known best."""
    logit: float
    slope: float
    scatter: float
    """The variance of runs around the line, as a multiple of what was assumed."""
    freedom: float
    """How well that is known, in degrees of freedom."""
    variance: float
    """The variance of ``logit``, as if the scatter were 1."""

    @property
    def margin(self) -> float:
        """Return how far above the line the logit of another long run is at most, 95 times in 100: Student's bound."""
        quantile = _SURE + (_SURE**3 + _SURE) / (4 * self.freedom)
        return quantile * math.sqrt(self.scatter * (_WOBBLE**2 + self.variance))

    def rate_at(self, share: float) -> float:
        """Return the rate at which a share is expected, above 0 and below 1."""
        return math.exp(self.log_rate + (math.log(share / (1 - share)) - self.logit) / self.slope)


def fit_late_share(points: Iterable[RatePoint]) -> LateShareFit:
    """Fit a line to at least one point; each weighs as much as its number of late queries allows."""
    rows = []
    for point in points:
        late, in_time = point.late + 0.5, max(point.answered - point.late, 0) + 0.5
        rows.append((math.log(point.rate_per_s), math.log(late / in_time), 1 / (_BURST / late + _WOBBLE**2)))
    total = sum(weight for _, _, weight in rows)
    middle = sum(x * weight for x, _, weight in rows) / total
    height = sum(y * weight for _, y, weight in rows) / total
    prior = _SLOPE_SPREAD**-2
    along = sum(weight * (x - middle) ** 2 for x, _, weight in rows) + prior
    rise = sum(weight * (x - middle) * (y - height) for x, y, weight in rows) + prior * _SLOPE
    slope = max(_LEAST_SLOPE, rise / along)
    misfit = sum(weight * (y - height - slope * (x - middle)) ** 2 for x, y, weight in rows)
    freedom = _WOBBLE_WEIGHT + max(0, len(rows) - 2)  # a line takes two of them
    return LateShareFit(middle, height, slope, (_WOBBLE_WEIGHT + misfit) / freedom, freedom, 1 / total)
