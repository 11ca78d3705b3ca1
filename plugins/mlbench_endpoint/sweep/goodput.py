"""Goodput: the share of requests within all limits, and their rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlbench_endpoint.sweep.intervals import Estimate, share_interval
from mlbench_endpoint.sweep.load_window import AnsweredColumns, LoadWindow
from mlbench_endpoint.sweep.service_limits import ServiceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The goodput of a load; a failed request is not within the limits."""

    limits: ServiceLimits
    requests: int
    """Answered and failed ones."""
    within: int
    unknown: int
    """Answers that came in one piece, so that a limit on their tokens cannot be checked; not within."""
    share: Estimate
    requests_per_s: Estimate | None
    """The share of the rate of answers, by the lower and upper ends of both; None: that rate is not known."""


def measure_goodput(
    limits: ServiceLimits, found: AnsweredColumns, counts: np.ndarray, window: LoadWindow, *, failed: int
) -> Goodput:
    """Return the goodput of the requests that count.

    Args:
        limits: in force.
        found: answered requests.
        counts: which of them count, a bool array (requests).
        window: their rates.
        failed: number of failures.
    """
    several = found.answer_tokens > 1
    pieces = several & (found.longest_gap_ns < 0)
    per_token_ns = (found.end_ns - found.first_ns) / np.maximum(found.answer_tokens - 1, 1)
    times_ns = {
        "ttft": found.first_ns - found.begin_ns,
        "tpot": np.where(several, per_token_ns, 0),
        "itl": found.longest_gap_ns,
        "e2e": found.end_ns - found.begin_ns,
    }
    within, unknown = counts.copy(), np.zeros_like(counts)
    for name, each_ns in times_ns.items():
        if (limit_ns := getattr(limits, name)) is not None:
            within &= each_ns <= limit_ns
            unknown |= pieces & (name in {"tpot", "itl"})
    requests, good = int(counts.sum()) + failed, int((within & ~unknown).sum())
    share, rate = share_interval(good, requests), window.requests_per_s
    of_answers = share_interval(good, requests - failed)
    return Goodput(
        limits=limits,
        requests=requests,
        within=good,
        unknown=int((unknown & counts).sum()),
        share=share,
        requests_per_s=_product(of_answers, rate) if rate else None,
    )


def _product(share: Estimate, rate: Estimate) -> Estimate:
    low = None if share.low is None or rate.low is None else share.low * rate.low
    high = None if share.high is None or rate.high is None else share.high * rate.high
    return Estimate(value=share.value * rate.value, low=low, high=high)
