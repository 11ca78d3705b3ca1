"""Carries out a search for the highest sustained rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlbench.comparison.comparability import differences
from mlbench.discovery import Plugins
from mlbench.errors import InvalidRunError
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.facts import ENDS_INVALID_RUNS
from mlbench.records.run_record import RunRecord
from mlbench.running.turns import why_not_again
from mlbench.toolkit.rate_search import RateFound, RateNotFound, RateObservation, RateSearch, RateTrial
from mlbench.tuner.trial_maker import OverBudgetError, TrialMaker
from mlbench.tuner.trial_runs import TrialRuns, check_completed
from mlbench.tuner.tune_plan import SEARCHED, TunePlan

_BEGIN = 0.75
"""The first probe's share of the throughput with everything at once."""

_MOST = 1.1
"""No rate is tried beyond so many times that throughput: what a short run shows may be a little less than there is."""

_BEGIN_ALONE = 0.6
"""The same share of the rate one at a time, where only that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOutcome:
    """The result of a search."""

    found: RateFound | None
    reason: str
    """Reason for a missing rate, or for the end of the search for a higher one; empty otherwise."""
    made: int
    """Runs that were made now; the others were stored."""
    records: tuple[RunRecord, ...] = ()
    """The records of the runs that show the rate."""


def find_rate(
    plan: TunePlan, plugins: Plugins, maker: TrialMaker, on_observation: Callable[[RateObservation, bool], None]
) -> TuneOutcome:
    """Search for the highest rate at which runs are valid again.

    ``on_observation`` gets the result of each trial, and whether it was stored.

    Raises:
        InvalidRunError: a run failed, or is INVALID for a reason that no rate changes.
        MlbenchError: as `run_benchmark`.
    """
    return _Tune(plan, TrialRuns(plan, plugins), maker, on_observation).carry_out()


class _Tune:
    """A search in progress."""

    def __init__(
        self,
        plan: TunePlan,
        runs: TrialRuns,
        maker: TrialMaker,
        on_observation: Callable[[RateObservation, bool], None],
    ) -> None:
        self._plan = plan
        self._runs = runs
        self._maker = maker
        self._on_observation = on_observation
        self._records: dict[str, RunRecord] = {}

    def carry_out(self) -> TuneOutcome:
        search: RateSearch | None = None
        try:
            search = self._begin()
            while isinstance(step := search.next_step(), RateTrial):
                search = search.with_observation(self._try(step, search))
        except OverBudgetError:
            found = search.proven() if search else None
            return self._outcome(found, "the budget is used up; the same command continues from here")
        reason = step.reason if isinstance(step, RateNotFound) else ""
        return self._outcome(step if isinstance(step, RateFound) else None, reason)

    def _outcome(self, found: RateFound | None, reason: str) -> TuneOutcome:
        records = tuple(self._records[each.run_id] for each in found.runs) if found else ()
        return TuneOutcome(found=found, reason=reason, made=self._maker.made, records=records)

    def _begin(self) -> RateSearch:
        """Measure the speeds, and return the search with its first guess."""
        guesses, goal, most_per_s = list[float](), self._plan.goal, float("inf")
        for scenario in self._plan.speeds:
            record, _ = self._record(self._runs.speed(scenario), f"speed in {scenario.name}", goal.probe_s)
            check_completed(record)
            assert record.result
            loaded = record.load.get("performance_sample_count")
            if self._plan.limits.equal_issue and isinstance(loaded, int):
                goal = replace(goal, multiple=min(loaded, record.samples.get("dataset", loaded)))
            if scenario.sends_all_at_once:
                if throughput_per_s := samples_per_s(record):
                    guesses.append(_BEGIN * throughput_per_s)
                    most_per_s = _MOST * throughput_per_s
            elif mean_ns := record.result.latency_ns.get("mean_latency"):
                self._check_alone(mean_ns)
                guesses.append(_BEGIN_ALONE * 1e9 / mean_ns)
        self._plan = replace(self._plan, goal=goal)
        self._runs = replace(self._runs, plan=self._plan)
        return RateSearch(goal=goal, start_per_s=guesses[0] if guesses else 1.0, most_per_s=most_per_s)

    def _check_alone(self, mean_ns: int) -> None:
        """Raise `InvalidRunError` where a query takes too long even when no other is under way."""
        limit_ms = self._plan.limits.server_latency_ms
        if limit_ms is not None and mean_ns > limit_ms * 1e6:
            raise InvalidRunError(
                f"a query alone takes {mean_ns / 1e6:.3g} ms, and the limit is {limit_ms:g} ms.",
                hint="No rate keeps it.",
            )

    def _try(self, trial: RateTrial, search: RateSearch) -> RateObservation:
        kind = trial.is_full, trial.rate_per_s
        same = [each for each in search.observations if (each.is_full, each.rate_per_s) == kind]
        request = self._runs.of(trial, repeat=len(same) + 1)
        what = f"full run at {trial.rate_per_s:g}/s" if trial.is_full else f"probe at {trial.rate_per_s:g}/s"
        record, is_stored = self._record(request, what, trial.seconds)
        observation = self._runs.observation(trial, record)
        self._on_observation(observation, is_stored)
        return observation

    def _record(self, request: ResolvedRequest, what: str, seconds: float) -> tuple[RunRecord, bool]:
        """Return the stored run of a request, or make it; and which of the two.

        Raises:
            OverBudgetError: there is no time to make it.
        """
        record, is_stored = self._maker.record(request, what, seconds)
        self._records[record.run_id] = record
        return record, is_stored


def samples_per_s(record: RunRecord) -> float:
    """Return the throughput of a run that sent everything at once: its slowest answer came at its end."""
    assert record.result
    longest_ns = record.result.latency_ns.get("max_latency", 0)
    return record.samples.get("issued", 0) / longest_ns * 1e9 if longest_ns else 0.0


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
        find_rate(plan, plugins, TrialMaker(refuse, fresh=fresh), lambda each, is_stored: used.update([each.is_full]))
        is_done = True
    except _NotStoredError:
        is_done = False
    least_s, usual_s = (
        0.0 if is_done else plan.seconds_left(probes=used[False], runs=used[True], is_least=is_least)
        for is_least in (True, False)
    )
    return Remaining(least_s=least_s, usual_s=usual_s, stored=used.total(), is_done=is_done)


_MAY_DIFFER = (SEARCHED, *ENDS_INVALID_RUNS)


def highest_run_above(shown: RunRecord, others: Sequence[RunRecord]) -> RunRecord | None:
    """Return the run at the highest rate above that of a run that shows the sustained rate; None if there is none.

    Args:
        shown: a full run at the rate that was found.
        others: stored runs. Only those count that are valid, do not miss their accuracy target, and differ in nothing
            but the rate: conditions, settings, machine and software.
    """
    higher = [each for each in others if _rate(each) > _rate(shown) and _is_alike(each, shown)]
    return max(higher, key=_rate, default=None)


def _rate(record: RunRecord) -> float:
    return record.arrivals_per_s or 0.0


def _is_alike(record: RunRecord, shown: RunRecord) -> bool:
    """Return whether a run's verdict speaks for the conditions of another."""
    if record.status != "completed" or not record.verdict or not record.verdict.is_valid:
        return False
    if record.verdict.is_accurate is False or why_not_again(record, shown.environment):
        return False
    return all(each.fact in _MAY_DIFFER for each in differences(shown, record, across=_MAY_DIFFER))
