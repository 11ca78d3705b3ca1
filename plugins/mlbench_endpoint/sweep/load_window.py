"""The part of a load that was steady, its rates, and its course over time.

If all requests wait from the beginning for a place, as with N at once, the first ones are sent together to an idle
server, and while the last ones run no other takes a free place. Both are left out, by their order of sending: who left
out by the time of the end would leave out long answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlbench_endpoint.sweep.intervals import BATCHES, Estimate, rate_interval

_STEPS = 40

_AT_ONCE_NS = 1_000_000
"""A request that was sent within this time of its arrival found a free place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredColumns:
    """Answered requests, an array of int64 for each fact, all equally long; times of CLOCK_MONOTONIC in ns."""

    asked_ns: np.ndarray
    """When the client got the request, or when it was due."""
    sent_ns: np.ndarray
    first_ns: np.ndarray
    end_ns: np.ndarray
    prompt_tokens: np.ndarray
    answer_tokens: np.ndarray
    longest_gap_ns: np.ndarray
    """Longest time between two chunks; -1: it has none."""
    places: int
    """Number of places for which all requests wait from the beginning: N at once. 0: they keep coming, as at a rate."""

    @property
    def is_closed(self) -> bool:
        """Whether requests wait for nothing but a place."""
        return self.places > 0

    @property
    def begin_ns(self) -> np.ndarray:
        """When each wait of a user begins: with the sending if requests wait only for a place."""
        return self.sent_ns if self.is_closed else self.asked_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindow:
    """The steady part of a load; rates are of what ended or arrived within it, per second."""

    requests: int
    """Requests that count."""
    left_out_at_start: int
    left_out_at_end: int
    most_in_flight: int
    found_free_place: float | None
    """Share of those behind the first ones, with N at once, that were sent as soon as they came: then fewer than N ran.
    None: requests keep coming, or are too few."""
    lasted_ns: int
    requests_per_s: Estimate | None
    """None: fewer answers ended in it than its batches; likewise below."""
    prompt_tokens_per_s: Estimate | None
    """Tokens of the prompts whose first tokens arrived."""
    answer_tokens_per_s: Estimate | None
    """Tokens of answers, each spread evenly from its first token to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCourse:
    """A load over time: means over steps of equal length, from the first sending to the last end."""

    step_ns: int
    in_flight: Sequence[float]
    waiting: Sequence[float]
    """Requests that waited for a place; empty if all did, from the beginning."""
    failed: Sequence[int]
    """Failures in each step."""
    answer_tokens_per_s: Sequence[float]


def find_steady(found: AnsweredColumns) -> tuple[np.ndarray, LoadWindow]:
    """Return which requests count, as a bool array (requests), and the window. There is at least one request."""
    order = np.argsort(found.sent_ns, kind="stable")
    sent_ns, ends_ns = found.sent_ns[order], np.sort(found.end_ns)
    in_flight = np.arange(1, len(order) + 1) - np.searchsorted(ends_ns, sent_ns, side="right")
    places = int(in_flight.max())
    left_out = places if found.is_closed and 2 * places < len(order) else 0
    counts = np.zeros(len(order), bool)
    counts[order[left_out : len(order) - left_out]] = True
    begin_ns, end_ns = int(sent_ns[left_out]), int(sent_ns[-1])
    waits_ns = (sent_ns - found.asked_ns[order])[places:]
    is_long = found.is_closed and len(order) > 2 * max(found.places, places)
    window = LoadWindow(
        requests=int(counts.sum()),
        left_out_at_start=left_out,
        left_out_at_end=left_out,
        most_in_flight=places,
        found_free_place=float((waits_ns < _AT_ONCE_NS).mean()) if is_long else None,
        lasted_ns=end_ns - begin_ns,
        **_rates(found, begin_ns, end_ns),
    )
    return counts, window


def _rates(found: AnsweredColumns, begin_ns: int, end_ns: int) -> dict[str, Estimate | None]:
    edges_ns = np.linspace(begin_ns, end_ns, BATCHES + 1)
    ended, read = (_steps_until(edges_ns, each) for each in (found.end_ns, found.first_ns))
    totals = {
        "requests_per_s": ended(np.ones_like(found.end_ns)),
        "prompt_tokens_per_s": read(found.prompt_tokens),
        "answer_tokens_per_s": _tokens_until(edges_ns, found),
    }
    width_s = (end_ns - begin_ns) / BATCHES / 1e9
    is_enough = totals["requests_per_s"][-1] - totals["requests_per_s"][0] >= BATCHES and width_s > 0
    return {
        name: rate_interval((np.diff(total) / width_s).tolist()) if is_enough else None
        for name, total in totals.items()
    }


def _steps_until(edges_ns: np.ndarray, times_ns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that sums up the weights of events until each edge."""
    order = np.argsort(times_ns)
    places = np.searchsorted(times_ns[order], edges_ns, side="right")
    return lambda weights: np.concatenate([[0.0], np.cumsum(weights[order])])[places]


def _tokens_until(edges_ns: np.ndarray, found: AnsweredColumns) -> np.ndarray:
    """Return the tokens until each edge: one at the first token's arrival, the others evenly until the end."""
    first_ns, lasted_ns = found.first_ns, np.maximum(found.end_ns - found.first_ns, 1)
    rest = found.answer_tokens - 1
    return np.array(
        [
            (first_ns <= edge).sum() + (rest * np.clip((edge - first_ns) / lasted_ns, 0.0, 1.0)).sum()
            for edge in edges_ns
        ]
    )


def course_of(found: AnsweredColumns, failed_ns: np.ndarray) -> LoadCourse | None:
    """Return the course of a load.

    Args:
        found: answered requests, at least one.
        failed_ns: times of failures.
    """
    begin_ns, end_ns = int(found.sent_ns.min()), int(found.end_ns.max())
    if end_ns - begin_ns < _STEPS:
        return None
    edges_ns = np.linspace(begin_ns, end_ns, _STEPS + 1)
    step_ns = (end_ns - begin_ns) / _STEPS

    def mean_between(begins_ns: np.ndarray, ends_ns: np.ndarray) -> list[float]:
        spent = [(np.clip(edge - begins_ns, 0, None) - np.clip(edge - ends_ns, 0, None)).sum() for edge in edges_ns]
        return [round(float(each), 3) for each in np.diff(spent) / step_ns]

    return LoadCourse(
        step_ns=round(step_ns),
        in_flight=mean_between(found.sent_ns, found.end_ns),
        waiting=[] if found.is_closed else mean_between(found.asked_ns, found.sent_ns),
        failed=np.histogram(failed_ns, edges_ns)[0].tolist(),
        answer_tokens_per_s=[round(float(each), 1) for each in np.diff(_tokens_until(edges_ns, found)) / step_ns * 1e9],
    )
