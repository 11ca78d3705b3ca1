"""Arrival times that LoadGen has no scenario for: gamma, constant, and a rate that rises or falls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlbench import UsageError

if TYPE_CHECKING:
    import numpy as np

FORMS = "poisson, constant, gamma:0.5 (shape: below 1 burstier than Poisson), or --ramp 1:20 (requests/s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalPattern:
    """How requests arrive within a duration."""

    mean_per_s: float
    draw: Callable[[np.random.Generator, float], np.ndarray]
    """Returns the arrival times within so many seconds, in seconds, ascending."""


def parse_arrivals(text: str, rate_per_s: float) -> ArrivalPattern:
    """Return the arrivals that a text describes.

    ``gamma:SHAPE`` is the burstiness of vLLM's benchmark: gaps follow a gamma distribution of this shape, so that their
    coefficient of variation is one by the root of the shape; 1 is Poisson.

    Args:
        text: ``constant``, ``gamma:SHAPE`` or ``ramp:FIRST:LAST``.
        rate_per_s: mean rate of the first two.

    Raises:
        UsageError: it is none of these, or the rate is none.
    """
    kind, *numbers = text.strip().split(":")
    try:
        values = [float(each) for each in numbers]
    except ValueError:
        values = [-1.0]
    if not all(0 <= value <= 1e6 for value in values):  # a NaN is not either
        kind = ""
    match kind, values:
        case "ramp", [first, last] if first + last > 0:
            return ArrivalPattern(
                mean_per_s=(first + last) / 2, draw=lambda rng, seconds: _ramp(first, last, seconds, rng)
            )
        case "constant", [] if rate_per_s:
            return _with_gaps(rate_per_s, lambda rng, count: rng.uniform(1, 1, count))
        case "gamma", [shape] if shape >= 0.001 and rate_per_s:
            return _with_gaps(rate_per_s, lambda rng, count: rng.gamma(shape, 1 / shape, count))
    raise UsageError(f"the arrival is {text!r} at {rate_per_s:g} requests/s.", hint=f"Give {FORMS}.")


def _with_gaps(rate_per_s: float, draw: Callable[[np.random.Generator, int], np.ndarray]) -> ArrivalPattern:
    """Return arrivals with gaps of mean 1 / rate."""

    def times(rng: np.random.Generator, seconds: float) -> np.ndarray:
        count = max(1, round(rate_per_s * seconds))
        gaps = draw(rng, count)
        whole = gaps.sum() or 1.0
        # the schedule has exactly the mean rate that was asked for: chance decides the gaps, not their sum
        found: np.ndarray = (gaps.cumsum() - gaps[0]) * (seconds / whole)
        return found

    return ArrivalPattern(mean_per_s=rate_per_s, draw=times)


def _ramp(first: float, last: float, seconds: float, rng: np.random.Generator) -> np.ndarray:
    """Return Poisson arrivals whose rate goes from the first to the last in a line.

    Their number is the mean one; each arrives where the integral of the rate reaches a random value.
    """
    import numpy as np

    count = max(1, round((first + last) / 2 * seconds))
    share = np.sort(rng.random(count))  # of all arrivals
    slope = last - first
    if math.isclose(first, last):
        return share * seconds
    return seconds * (np.sqrt(first**2 + slope * (first + last) * share) - first) / slope
