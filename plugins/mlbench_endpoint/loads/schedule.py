"""The schedule of a test: when the client's process sends each request, and how late it was.

LoadGen makes Poisson arrivals only. A schedule of another kind is one query of LoadGen's Offline, whose samples the
client's process sends when they are due.
"""

from __future__ import annotations

import secrets
import time
from array import array
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from mlbench import Reply, Samples
from mlbench.toolkit import AwaitedReply
from mlbench_endpoint.client.request_times import Quantity, RequestTimes, quantity_of
from mlbench_endpoint.loads.text_sample import TextSample

_LEAD_NS = 200_000_000
"""Time before the first request, in which the process gets the first messages."""

_ALLOWED_SHARE, _ALLOWED_NS = 0.1, 50_000_000
"""A schedule is kept if 99 % of requests are sent within a tenth of the median answer time, or 50 ms. The load of a
server is the number of requests that it has at a time: delays far below the time of an answer hardly change it. Below
50 ms the scheduler of a busy machine decides, and traces are coarser: BurstGPT's arrivals are whole seconds."""


@dataclass(slots=True)
class Schedule:
    """A test whose requests are due at given times."""

    begin_ns: int
    left: int
    """Requests that have not ended."""
    late_ns: array[int] = field(default_factory=lambda: array("q"))

    @classmethod
    def of(cls, samples: Samples, reply: Reply) -> Self | None:
        """Return the schedule of a query.

        None where all are sent at once: a single sample, since LoadGen keeps the time of those; prompts without due
        times; and a trial, whose answers somebody waits for.
        """
        if len(samples) == 1 or isinstance(reply, AwaitedReply):
            return None
        first = samples.dataset.sample(samples.indices[0])
        if not isinstance(first, TextSample) or first.due_ns is None:
            return None
        if sorted(samples.indices) != list(range(len(samples.indices))):
            reply.invalidate(
                f"the query has {len(samples)} samples, not each of the schedule's {samples.dataset.count} once: "
                "set load.min_query_count to that number, and load.target_qps below their rate"
            )
        return cls(begin_ns=time.monotonic_ns() + _LEAD_NS, left=len(samples))

    def due_ns(self, sample: Any) -> int:
        """Return when a sample is due, CLOCK_MONOTONIC."""
        return self.begin_ns + (sample.due_ns or 0)

    def lateness(self) -> Quantity | None:
        """Return how late requests were sent; None where none was answered."""
        return quantity_of("lateness", "ns", np.array(self.late_ns))

    def problem(self, times: RequestTimes) -> str:
        """Return why the schedule was not kept; empty if it was."""
        if (late := self.lateness()) is None:
            return ""
        answers = times.columns()
        answer_ns = float(np.median(answers.end_ns - answers.sent_ns)) if len(times) else 0.0
        allowed_ns = max(_ALLOWED_NS, _ALLOWED_SHARE * answer_ns)
        if late.p99 <= allowed_ns:
            return ""
        p50, p99, most, allowed = (f"{ns / 1e6:.3g} ms" for ns in (late.p50, late.p99, late.most, allowed_ns))
        return (
            f"the schedule was not kept: requests were {p50} late in the median, {p99} at the 99th percentile "
            f"(allowed: {allowed}), {most} at most: lower the rate or the speed, or raise backend.connections"
        )


def new_salt() -> str:
    """Return a text that makes the new words of one test differ from those of all others."""
    return secrets.token_hex(8)


def with_salt(sample: Any, salt: str) -> Any:
    """Return a sample whose new words are those of one test."""
    return replace(sample, seed=f"{salt} {sample.seed}") if isinstance(sample, TextSample) and sample.seed else sample
