"""The rest of a search, given the stored runs that it would use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mlbench.discovery import Plugins
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.run_record import RunRecord
from mlbench.tuner.find_rate import find_rate
from mlbench.tuner.tune_plan import TunePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """The rest of a search."""

    least_s: float
    usual_s: float
    stored: int
    """Runs that are there."""
    is_done: bool
    """Whether the stored runs show a rate already."""


class _NotStoredError(Exception):
    pass


def remaining_of(plan: TunePlan, plugins: Plugins, *, fresh: bool = False) -> Remaining:
    """Follow a search through its stored runs, and return what is left of it; nothing runs.

    Raises:
        InvalidRunError: a stored run is INVALID for a reason that no rate changes.
    """
    used = Counter[bool]()

    def refuse(request: ResolvedRequest, what: str, seconds: float) -> RunRecord:
        raise _NotStoredError

    try:
        find_rate(
            plan,
            plugins,
            refuse,
            fresh=fresh,
            on_observation=lambda observation, is_stored: used.update([observation.is_full]),
        )
        is_done = True
    except _NotStoredError:
        is_done = False
    stored = used.total()
    if is_done:
        return Remaining(least_s=0.0, usual_s=0.0, stored=stored, is_done=True)
    return Remaining(
        least_s=plan.seconds_left(probes=used[False], runs=used[True], is_least=True),
        usual_s=plan.seconds_left(probes=used[False], runs=used[True], is_least=False),
        stored=stored,
        is_done=False,
    )
