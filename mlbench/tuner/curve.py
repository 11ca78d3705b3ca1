"""The runs of ``mlbench curve``: everything at once, then one rate after another up to what that completed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mlbench.contracts.scenario import Scenario
from mlbench.discovery import Plugins
from mlbench.errors import InvalidRunError, UsageError
from mlbench.planning.requests import ResolvedRequest, resolve
from mlbench.records.run_record import RunRecord
from mlbench.tuner.find_rate import samples_per_s
from mlbench.tuner.trial_maker import OverBudgetError, StoredTrials, TrialMaker
from mlbench.tuner.trial_runs import asking, check_completed
from mlbench.tuner.tune_plan import AROUND_S, SEARCHED, TunePlan, TuneRequest, plan_tune

_RANGE = 16
"""The highest rate over the lowest."""

LEAST, USUAL, MOST = 4, 7, 32
"""Points of a curve: those that are always there, the draft's least number, and its largest."""

_DIGITS = 3


def mandatory_points(lowest: int, highest: int) -> tuple[int, int, int, int]:
    """Return the four loads that each curve has: the ends, and two that are spaced by powers of two.

    Source: the draft rules of MLPerf Endpoints: I = log2(Cmax - Cmin) / 3, low = round(Cmin + 2^I),
    medium = round(Cmin + 2^(2 I)).
    """
    step = math.log2(highest - lowest) / 3
    return lowest, round(lowest + 2**step), round(lowest + 2 ** (2 * step)), highest


def curve_rates(most_per_s: float, points: int = USUAL) -> tuple[float, ...]:
    """Return the rates of a curve, ascending: the four mandatory ones, and others that halve the widest gap left.

    Args:
        most_per_s: what the system completes with all samples at once, above 0.
        points: how many, `LEAST` to `MOST`.
    """
    shares = [load / _RANGE for load in mandatory_points(1, _RANGE)]
    while len(shares) < points:
        gap = max(range(len(shares) - 1), key=lambda index: (shares[index + 1] - shares[index], index))
        shares.insert(gap + 1, (shares[gap] + shares[gap + 1]) / 2)
    return tuple(float(f"{share * most_per_s:.{_DIGITS}g}") for share in shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePlan:
    """A curve that can be measured."""

    at_a_rate: TunePlan
    at_once: Scenario
    """The scenario whose throughput is the highest rate."""
    points: int
    """Rates."""
    repeats: int
    """Runs at each."""

    @property
    def runs(self) -> int:
        """Return how many runs the curve has."""
        return (self.points + 1) * self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOutcome:
    """The result of a curve."""

    records: tuple[RunRecord, ...]
    """Those with all samples at once first, then by ascending rate."""
    made: int
    """Runs that were made now; the others were stored."""
    missing: int
    """Runs for which there was no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveLeft:
    """The rest of a curve."""

    rates_per_s: tuple[float, ...]
    """Empty while they are not known: they follow from the first run."""
    seconds: float
    stored: int


@dataclass(frozen=True, slots=True)
class _PlannedPoint:
    request: ResolvedRequest
    what: str
    seconds: float


def plan_curve(request: TuneRequest, plugins: Plugins, *, points: int, repeats: int) -> CurvePlan:
    """Return how a curve will be measured; nothing runs.

    Raises:
        MlbenchError: as `plan_tune`; or the rules define no scenario with all samples at once.
    """
    plan = plan_tune(request, plugins)
    at_once = next((each for each in plan.speeds if each.sends_all_at_once), None)
    if at_once is None:
        raise UsageError(f"{plan.base.workload} has no scenario with all samples at once, so no highest rate is known.")
    return CurvePlan(at_a_rate=plan, at_once=at_once, points=points, repeats=repeats)


def measure_curve(
    plan: CurvePlan, plugins: Plugins, maker: TrialMaker, on_point: Callable[[RunRecord, bool], None]
) -> CurveOutcome:
    """Make the runs of a curve, but those that are stored; ``on_point`` gets each run, and whether it was stored.

    Raises:
        InvalidRunError: the run with all samples at once failed, or completed nothing.
        MlbenchError: as `run_benchmark`.
    """
    found: list[RunRecord] = []

    def measure(point: _PlannedPoint) -> bool:
        try:
            record, is_stored = maker.record(point.request, point.what, point.seconds)
        except OverBudgetError:
            return False
        found.append(record)
        on_point(record, is_stored)
        return True

    is_all = all(map(measure, _at_once(plan, plugins))) and all(map(measure, _at_rates(plan, plugins, found)))
    return CurveOutcome(records=tuple(found), made=maker.made, missing=0 if is_all else plan.runs - len(found))


def left_of(plan: CurvePlan, plugins: Plugins, *, fresh: bool = False) -> CurveLeft:
    """Return how much of a curve is left to measure; nothing runs.

    Raises:
        InvalidRunError: as `measure_curve`, of a stored run.
    """
    stored = StoredTrials(fresh=fresh)
    ends = [(point, stored.find(point.request)) for point in _at_once(plan, plugins)]
    first = ends[0][1]
    if first is None:
        there = sum(record is not None for _, record in ends)
        seconds = (plan.runs - there) * (plan.at_a_rate.goal.full_s + AROUND_S)
        return CurveLeft(rates_per_s=(), seconds=seconds, stored=there)
    points = [*ends, *((point, stored.find(point.request)) for point in _at_rates(plan, plugins, [first]))]
    return CurveLeft(
        rates_per_s=_rates(plan, [first]),
        seconds=sum(point.seconds + AROUND_S for point, record in points if record is None),
        stored=sum(record is not None for _, record in points),
    )


def _at_once(plan: CurvePlan, plugins: Plugins) -> Iterator[_PlannedPoint]:
    asked = plan.at_a_rate.request
    request = resolve(asking(plan.at_a_rate.base, scenario=plan.at_once.name, overrides=dict(asked.overrides)), plugins)
    for repeat in range(1, plan.repeats + 1):
        yield _PlannedPoint(replace(request, repeat=repeat), plan.at_once.name, plan.at_a_rate.goal.full_s)


def _at_rates(plan: CurvePlan, plugins: Plugins, at_once: list[RunRecord]) -> Iterator[_PlannedPoint]:
    """Yield the runs at rates, the lowest first; repeats interleaved, so that no slow minute is all of one rate's."""
    base, goal = plan.at_a_rate.base, plan.at_a_rate.goal
    rates = _rates(plan, at_once)
    for repeat in range(1, plan.repeats + 1):
        for rate_per_s in rates:
            request = resolve(asking(base, overrides={**base.overrides, SEARCHED: rate_per_s}), plugins)
            seconds = goal.queries(rate_per_s, is_full=True) / rate_per_s
            yield _PlannedPoint(replace(request, repeat=repeat), f"{rate_per_s:g}/s", seconds)


def _rates(plan: CurvePlan, at_once: list[RunRecord]) -> tuple[float, ...]:
    first = at_once[0]
    check_completed(first)
    if not (most_per_s := samples_per_s(first)):
        raise InvalidRunError(f"{first.run_id} completed nothing, so no highest rate is known.")
    return curve_rates(most_per_s, plan.points)
