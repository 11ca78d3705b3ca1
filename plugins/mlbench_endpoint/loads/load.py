"""One load of a sweep: a concurrency, a rate, an arrival pattern, or a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mlbench import UsageError
from mlbench_endpoint.loads.arrivals import parse_arrivals
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.loads.scenarios import CONCURRENCY, RATE, SCHEDULE

_CONNECTIONS = "backend.connections"
_TARGET_QPS = "load.target_qps"

_SHORTEST_S = 2.0
"""Shortest run of the lowest tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load of a sweep: exactly one of ``rate_per_s``, ``in_flight``, a ramp in ``arrival``, and ``speed``."""

    rate_per_s: float | None = None
    in_flight: int | None = None
    """Number of concurrent requests, or sessions."""
    arrival: str = ""
    """How requests arrive at the rate: ``gamma:0.5`` or ``constant``; or a ramp, ``ramp:1:20``. Empty: at random."""
    speed: float | None = None
    """Speed of a trace."""

    @property
    def is_scheduled(self) -> bool:
        """Whether the client's process keeps the times of a schedule."""
        return bool(self.arrival or self.speed)

    @property
    def scenario(self) -> str:
        """The scenario of this load."""
        if self.is_scheduled:
            return SCHEDULE.name
        return RATE.name if self.rate_per_s else CONCURRENCY.name

    def check(self) -> None:
        """Raise `UsageError` for an arrival pattern that is none."""
        if self.arrival:
            parse_arrivals(self.arrival, self.rate_per_s or 0.0)

    @property
    def label(self) -> str:
        """Its name in a table."""
        if self.speed:
            return f"trace x{self.speed:g}"
        if self.in_flight:
            return f"{self.in_flight} at once"
        pattern = self.arrival.replace("ramp:", "").replace(":", " to " if not self.rate_per_s else " ")
        return f"{self.rate_per_s:g}/s {pattern}".strip() if self.rate_per_s else f"{pattern}/s"

    @property
    def rank(self) -> tuple[float, ...]:
        """Place in a table: those at a rate first, and the least load first."""
        return (self.in_flight or 0, self.speed or 0, self.rate_per_s or 0)

    def prompt_options(self, prompts: PromptOptions, seconds: float) -> PromptOptions:
        """Return the options of the prompts with this load's schedule."""
        if self.speed:
            return replace(prompts, speed=self.speed)
        if not self.arrival:
            return prompts
        return replace(prompts, arrival=self.arrival, rate_per_s=self.rate_per_s or 0.0, seconds=seconds)

    def settings(self, *, most_connections: int) -> Mapping[str, float]:
        """Return the settings of its run."""
        if self.is_scheduled:
            return {_CONNECTIONS: most_connections}
        if self.rate_per_s:
            return {_TARGET_QPS: self.rate_per_s, _CONNECTIONS: most_connections}
        return {_CONNECTIONS: self.in_flight or 1}

    @classmethod
    def of_record(cls, scenario: str, settings: Mapping[str, Mapping[str, Any]]) -> Load:
        """Return the load of a run, given its scenario and settings."""
        if scenario == RATE.name:
            return cls(rate_per_s=settings[_TARGET_QPS]["value"])
        if scenario == CONCURRENCY.name:
            return cls(in_flight=settings[_CONNECTIONS]["value"])
        arrival = settings["workload.arrival"]["value"]
        if not arrival:
            return cls(speed=settings["workload.speed"]["value"])
        return cls(arrival=arrival, rate_per_s=settings["workload.rate_per_s"]["value"] or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFacts:
    """The size of a schedule."""

    requests: int
    seconds: float
    """Time of the last arrival."""
    longest_gap_s: float

    @classmethod
    def of(cls, prompts: PromptOptions) -> ScheduleFacts:
        """Return those of the schedule that the options describe.

        Raises:
            UsageError: it is shorter than any run.
        """
        given = open_prompts(prompts)
        due_s = [0.0, *((given.sample(index).due_ns or 0) / 1e9 for index in range(given.count))]
        if due_s[-1] < _SHORTEST_S:
            raise UsageError(
                f"the last of {given.count} requests arrives after {due_s[-1]:.3g} s; a run takes {_SHORTEST_S:g} s.",
                hint="Lower --speed, or give a longer trace." if prompts.trace else "Raise --seconds.",
            )
        gaps_s = [late - early for early, late in pairwise(due_s)]
        return cls(requests=given.count, seconds=due_s[-1], longest_gap_s=max(gaps_s))

    @property
    def settings(self) -> Mapping[str, float]:
        """Return settings with which LoadGen's Offline sends each request of the schedule once."""
        return {"load.min_query_count": self.requests, "load.min_duration_ms": int(1000 * self.seconds)}
