"""Delays of a mock server: one, or a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist

from mlbench import UsageError
from mlbench.toolkit import parse_time_ns

Delay = Callable[[Random], float]
"""Returns a delay in seconds, 0 or more."""

FORMS = (
    "20ms, uniform:10ms:30ms (least, most), normal:20ms:2ms (mean, standard deviation), lognormal:20ms:80ms (median, "
    "99th percentile) or exponential:20ms (mean)"
)

_LONGEST_S = 3600.0
_P99 = NormalDist().inv_cdf(0.99)


def parse_delay(text: str, name: str) -> Delay:
    """Return the delay that a text in one of `FORMS` describes; a negative draw counts as 0.

    Args:
        text: the text.
        name: of the option, for the error.

    Raises:
        UsageError: it is in no such form, or a time is longer than an hour.
    """
    kind, *times = text.strip().split(":") if ":" in text else ("fixed", text.strip())
    found = [_seconds(each) for each in times]
    values = [each for each in found if each is not None]
    match (kind if len(values) == len(found) else "", values):
        case "fixed", [delay_s]:
            return lambda rng: delay_s
        case "uniform", [least_s, most_s] if least_s <= most_s:
            return lambda rng: rng.uniform(least_s, most_s)
        case "normal", [mean_s, spread_s]:
            return lambda rng: max(0.0, rng.gauss(mean_s, spread_s))
        case "lognormal", [median_s, p99_s] if 0 < median_s <= p99_s:
            sigma = math.log(p99_s / median_s) / _P99
            return lambda rng: rng.lognormvariate(math.log(median_s), sigma)
        case "exponential", [mean_s] if mean_s:
            return lambda rng: rng.expovariate(1 / mean_s)
    raise UsageError(f"{name} is {text!r}.", hint=f"Give {FORMS}; times have the unit us, ms or s.")


def _seconds(text: str) -> float | None:
    try:
        seconds = 0.0 if text == "0" else parse_time_ns(text) / 1e9
    except ValueError:
        return None
    return seconds if seconds <= _LONGEST_S else None
