"""The search for the highest rate at which a share of requests is within all limits: `tune` of a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from mlbench import UnavailableError
from mlbench.toolkit import RateFound, RateGoal, RateNotFound, RateObservation, RateSearch, RateTrial, queries_needed
from mlbench_endpoint.sweep.results import LoadResult

_PROBE_SHARE, _LEAST_PROBE_S = 0.2, 2.0
_LATE_IN_PROBE = 5
"""A probe sends so many requests that this many may be outside the limits, or as many as a full run."""

_BEGIN = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputOutcome:
    """The result of a search."""

    share: float
    rate_per_s: float | None
    """None: none was found."""
    reason: str
    """Reason for a missing rate; empty otherwise."""
    runs: Sequence[LoadResult]
    """The full runs at that rate, all of which had the share within the limits."""

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), indent=2)

    def line(self, slo: str) -> str:
        """Return it as a line."""
        asked = f"{self.share:.4g} of the requests are within {slo}"
        if self.rate_per_s is None:
            return f"No rate was found at which {asked}: {self.reason}."
        shares = ", ".join(f"{each.goodput['share']['value']:.2%}" for each in self.runs if each.goodput)
        return f"Highest rate at which {asked}: {self.rate_per_s:g}/s ({shares})."


def goal_of(share: float, *, seconds: float, requests: int) -> RateGoal:
    """Return the goal of a search.

    Args:
        share: of requests within the limits, below 1.
        seconds: shortest duration of a full run.
        requests: smallest number of requests in one.
    """
    full_queries = max(requests, queries_needed(0, share))  # 99 % sure
    return RateGoal(
        percentile=share,
        full_s=seconds,
        full_queries=full_queries,
        probe_s=min(seconds, max(_PROBE_SHARE * seconds, _LEAST_PROBE_S)),
        probe_queries=min(full_queries, round(_LATE_IN_PROBE / (1 - share))),
    )


def find_goodput(
    goal: RateGoal,
    begin_per_s: float,
    most_per_s: float,
    measure: Callable[[RateTrial], LoadResult],
    on_observation: Callable[[RateObservation], None],
) -> GoodputOutcome:
    """Search for the highest rate at which two full runs have the goal's share within the limits.

    Args:
        goal: of the search.
        begin_per_s: requests per second with many at once.
        most_per_s: no higher rate is tried.
        measure: makes a run.
        on_observation: told each result.

    Raises:
        UnavailableError: a run has no answer at all.
    """
    search = RateSearch(goal=goal, start_per_s=_BEGIN * begin_per_s, most_per_s=most_per_s)
    runs: dict[str, LoadResult] = {}
    while isinstance(step := search.next_step(), RateTrial):
        result = measure(step)
        seen = _observation(step, result, goal)
        runs[result.run_id], search = result, search.with_observation(seen)
        on_observation(seen)
    if isinstance(step, RateNotFound):
        return GoodputOutcome(share=goal.percentile, rate_per_s=None, reason=step.reason, runs=[])
    assert isinstance(step, RateFound)
    shown = [runs[each.run_id] for each in step.runs]
    return GoodputOutcome(share=goal.percentile, rate_per_s=step.rate_per_s, reason="", runs=shown)


def _observation(step: RateTrial, result: LoadResult, goal: RateGoal) -> RateObservation:
    if not result.goodput:
        raise UnavailableError(f"{result.run_id} has no answer: {result.problem}", hint="No rate can be found then.")
    requests, within = result.goodput["requests"], result.goodput["within"]
    late = requests - within
    return RateObservation(
        rate_per_s=step.rate_per_s,
        is_full=step.is_full,
        answered=requests,
        late=late,
        is_valid=not result.problem and late <= goal.late_allowed(requests),
        run_id=result.run_id,
    )
