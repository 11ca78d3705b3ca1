"""The search for the highest rate at which a run is valid again: what to try next, from what was tried so far.

Short trials, called probes, first: they bracket the rate at which as many queries are late as the percentile allows,
then three inside the bracket show how the share of late queries grows. Full runs follow where fewer than allowed should
be late, until two are valid at one rate. A trial is to be ended as soon as it has shown what it can: a probe with three
times the late queries that are allowed, a full run that cannot become valid.

A search for the peak, by bisection over full runs, ends at the rate of a lucky run; this one asks for a rate that
holds.

Nothing here measures, and nothing changes: a search with one more observation is another search. So the same
observations give the same next step, and a search can go on from stored ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mlbench.rules.early_stopping import misses_allowed
from mlbench.toolkit.late_share import LateShareFit, RatePoint, fit_late_share

_REJECTED, _TOO_FEW = 3.0, 0.55
"""Both in parts of the allowance: a probe with a larger share of late queries is ended; if fewer are late in two valid
runs, a higher rate may be tried."""

_SURE, _BURST = 1.64, 4.0
"""A full run is to pass 95 times in 100 (one-sided), with numbers of late queries that vary more than Poisson's."""

_MORE = 4
"""So many probes where full runs would be, once that is known roughly: they show how much runs differ."""

_DOWN, _UP = 0.985, 1.012
_LARGEST_DROP, _MOST_UP, _MOST_RAISES = 0.8, 1.05, 3
_PATIENT = 2
"""So many full runs that fail in a row lower the rate by what was seen; after them each step is twice the last."""

_WIDE = 1.1
"""Between a rate that was shown and one that failed, as a ratio: what lies in the middle may hold as well. A machine
that was slow for a moment fails several rates in a row, each far below the last."""

_GROWTH, _SHRINKAGE = 1.25, 0.75
_NARROW = 1.2
"""Between the ends of a bracket, as a ratio."""

_INSIDE = (0.25, 0.5, 0.75)
_FAR = 10.0
"""A share of late queries of so many allowances lies beyond the straight part of the curve."""

_NEAR = 1.3
"""Rates lower than the highest by more than this ratio show nothing: hardly a query is late there."""

_BELOW_HELD = 0.9
"""Full runs are tried at this part of the highest sustained rate, at least. A system that batches answers all in
time up to an edge, where it cannot keep up: a line through runs on both sides of it may lead much further down."""

_DIGITS = 4
_MOST_PROBES, _MOST_RUNS = 40, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGoal:
    """The target of the search, and the duration of trials."""

    percentile: float
    """The share of queries that must be in time: 0.99."""
    full_s: float
    """Shortest duration of a full run."""
    full_queries: int
    """Smallest number of queries in a full run."""
    probe_s: float
    probe_queries: int
    """Smallest number of queries in a probe."""
    multiple: int = 1
    """A full run's number of queries is a multiple of this."""

    @property
    def allowance(self) -> float:
        """Return the share of queries that may be late."""
        return round(1 - self.percentile, 12)

    def queries(self, rate_per_s: float, *, is_full: bool) -> int:
        """Return how many queries a trial sends."""
        seconds, least = (self.full_s, self.full_queries) if is_full else (self.probe_s, self.probe_queries)
        count = max(math.ceil(rate_per_s * seconds), least)
        return -(-count // self.multiple) * self.multiple if is_full else count

    def late_allowed(self, queries: int) -> int:
        """Return how many queries of a full run may be late."""
        return max(0, misses_allowed(queries, self.percentile))

    def target_share(self, rate_per_s: float, margin: float) -> float:
        """Return the share of late queries to aim at in a full run: what passes again, not only by luck.

        Args:
            rate_per_s: about where.
            margin: by how much the logit of the share may come out higher.
        """
        queries = self.queries(rate_per_s, is_full=True)
        allowed = self.late_allowed(queries)
        spread = _SURE * math.sqrt(_BURST)
        surely = ((math.sqrt(spread**2 + 4 * allowed) - spread) / 2) ** 2
        return max(min(allowed * math.exp(-margin), surely) / queries, 0.1 / queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTrial:
    """A run to make."""

    rate_per_s: float
    queries: int
    seconds: float
    """How long it sends queries."""
    is_full: bool
    end_at_late_share: float
    """It is to be ended once a larger share of all its queries is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateObservation:
    """The result of a trial."""

    rate_per_s: float
    is_full: bool
    answered: int
    late: int
    is_valid: bool
    """By the verdict on it; of a full run alone this counts."""
    run_id: str = ""

    @property
    def point(self) -> RatePoint:
        """Return it as a point of the curve."""
        return RatePoint(self.rate_per_s, self.answered, self.late)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFound:
    """The answer: a rate, and the valid runs that show it."""

    rate_per_s: float
    runs: tuple[RateObservation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateNotFound:
    """Reason why no rate was found."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSearch:
    """A search, as far as it came."""

    goal: RateGoal
    start_per_s: float
    """The rate of the first probe: a guess."""
    most_per_s: float = math.inf
    """What the system completes at most: no higher rate can be sustained for long, whatever a short trial shows."""
    observations: tuple[RateObservation, ...] = ()
    """In the order in which they were made."""

    def with_observation(self, observation: RateObservation) -> RateSearch:
        """Return the search with one more observation."""
        return replace(self, observations=(*self.observations, observation))

    def next_step(self) -> RateTrial | RateFound | RateNotFound:
        """Return the trial to make next, or how the search ended."""
        probes = [each for each in self.observations if not each.is_full]
        runs = [each for each in self.observations if each.is_full]
        if len(probes) >= _MOST_PROBES:
            worst = min(probes, key=lambda each: each.rate_per_s)
            return RateNotFound(reason=f"at {worst.rate_per_s:g}/s {worst.point.share:.1%} of the queries are late")
        bracket, probe_per_s = self._bracket(probes)
        if bracket:
            asked = {each.rate_per_s for each in probes}
            inside = [_rounded(bracket[0] * (bracket[1] / bracket[0]) ** share) for share in _INSIDE]
            probe_per_s = next((rate for rate in inside if rate not in asked), 0.0)
            if not probe_per_s and not runs and self._needs_more(probes, inside):
                probe_per_s = self._aim(probes)
        return self._trial(probe_per_s, is_full=False) if probe_per_s else self._full_step(probes, runs)

    def proven(self) -> RateFound | None:
        """Return the highest rate that was shown so far; None: there is none yet."""
        valid: dict[float, list[RateObservation]] = {}
        for each in self.observations:
            if each.is_full and each.is_valid:
                valid.setdefault(each.rate_per_s, []).append(each)
        shown = [rate for rate, runs in valid.items() if len(runs) > 1]
        return RateFound(rate_per_s=max(shown), runs=tuple(valid[max(shown)])) if shown else None

    def _bracket(self, probes: list[RateObservation]) -> tuple[tuple[float, float] | None, float]:
        """Return the first narrow bracket, or None and the rate to probe next on the way to one."""
        passing, failing, most_per_s = 0.0, math.inf, _rounded(self.most_per_s)
        for each in probes:
            if each.point.share > self.goal.allowance:
                failing = min(failing, each.rate_per_s)
                passing = passing if passing < failing else 0.0
            elif each.rate_per_s < failing:
                passing = max(passing, each.rate_per_s)
            if min(failing, most_per_s) <= passing * _NARROW:
                return (passing, max(passing, min(failing, most_per_s))), 0.0
        if not passing and math.isinf(failing):
            return None, _rounded(min(self.start_per_s, most_per_s))
        if math.isinf(failing):
            return None, _rounded(min(passing * _GROWTH, most_per_s))
        return None, _rounded(math.sqrt(passing * failing) if passing else failing * _SHRINKAGE)

    def _full_step(
        self, probes: list[RateObservation], runs: list[RateObservation]
    ) -> RateTrial | RateFound | RateNotFound:
        """Return what follows from the full runs: they are looked at one after another, as they were made."""
        rate_per_s, failed_per_s, raises, failures = self._aim(probes), math.inf, 0, 0
        valid: list[RateObservation] = []
        proven: RateFound | None = None
        for number, run in enumerate(runs, 1):
            if not run.is_valid:
                if proven:
                    return proven
                failed_per_s, failures = rate_per_s, failures + 1
                aimed_per_s = self._aim([*probes, *runs[:number]])
                down = _DOWN ** (2 ** max(0, failures - _PATIENT))
                rate_per_s = _rounded(max(_LARGEST_DROP * failed_per_s, min(down * failed_per_s, aimed_per_s)))
                valid = []
                continue
            valid.append(run)
            failures = 0
            if len(valid) > 1:
                proven = RateFound(rate_per_s=rate_per_s, runs=tuple(valid))
                aimed_per_s = self._aim([*probes, *runs[:number]])
                higher_per_s = _higher(rate_per_s, aimed_per_s, failed_per_s)
                is_too_high = higher_per_s >= failed_per_s or higher_per_s > self.most_per_s
                is_worth_it = higher_per_s >= _UP * rate_per_s and self._has_room(valid)
                if not is_worth_it or is_too_high or raises == _MOST_RAISES:
                    return proven
                rate_per_s, valid, raises = higher_per_s, [], raises + 1
        if len(runs) >= _MOST_RUNS:
            return proven or RateNotFound(reason=f"of {len(runs)} full runs no two were valid at one rate")
        return self._trial(rate_per_s, is_full=True)

    @staticmethod
    def _needs_more(probes: list[RateObservation], inside: list[float]) -> bool:
        """Return whether more probes are to show, where full runs would be, how much runs differ."""
        last = max(index for index, each in enumerate(probes) if each.rate_per_s in inside)
        return len(probes) - 1 - last < _MORE

    def _aim(self, observations: list[RateObservation]) -> float:
        """Return the rate at which a full run should have the share of late queries that is aimed at."""
        fit = self._fit(observations)
        share = self.goal.target_share(self._nearest(observations) or self.start_per_s, fit.margin)
        aimed_per_s = max(fit.rate_at(share), _BELOW_HELD * self._held(observations))
        return _rounded(min(aimed_per_s, self._edge(observations), self.most_per_s))

    def _edge(self, observations: list[RateObservation]) -> float:
        """Return the middle between the highest rate that passed and the next one above it, which did not.

        A line through runs that all passed leads anywhere above them.
        """
        allowed = self.goal.allowance
        passed_per_s = max((each.rate_per_s for each in observations if each.point.share <= allowed), default=0.0)
        failed = [each.rate_per_s for each in observations if each.point.share > allowed]
        above = min((rate for rate in failed if rate > passed_per_s), default=math.inf)
        return math.sqrt(passed_per_s * above) if passed_per_s else math.inf

    def _held(self, observations: list[RateObservation]) -> float:
        """Return the highest rate at which few were late, as at all lower ones that were tried; 0: there is none."""
        allowed = self.goal.allowance
        failed = [each for each in observations if each.point.share > allowed or (each.is_full and not each.is_valid)]
        failing_per_s = min((each.rate_per_s for each in failed), default=math.inf)
        held = [each for each in observations if each.rate_per_s < failing_per_s and self._has_room([each])]
        return max((each.rate_per_s for each in held), default=0.0)

    def _fit(self, observations: list[RateObservation]) -> LateShareFit:
        """Return the line through the runs that show something: not far beyond the allowance, nor far below."""
        far, nearest_per_s = _FAR * self.goal.allowance, self._nearest(observations)
        points = [each.point for each in observations if each.point.share <= far]
        points = [point for point in points if point.rate_per_s * _NEAR >= nearest_per_s]
        return fit_late_share(points or [each.point for each in observations])

    def _nearest(self, observations: list[RateObservation]) -> float:
        """Return the highest rate that is not far beyond; 0: all are."""
        far = _FAR * self.goal.allowance
        return max((each.rate_per_s for each in observations if each.point.share <= far), default=0.0)

    def _has_room(self, runs: list[RateObservation]) -> bool:
        """Return whether so few queries were late in each that a higher rate may be sustained as well."""
        few = min(
            _TOO_FEW * self.goal.allowance, self.goal.target_share(runs[0].rate_per_s, margin=-math.log(_TOO_FEW))
        )
        return all(each.point.share < few for each in runs)

    def _trial(self, rate_per_s: float, *, is_full: bool) -> RateTrial:
        queries = self.goal.queries(rate_per_s, is_full=is_full)
        allowed = (self.goal.late_allowed(queries) + 0.5) / queries
        return RateTrial(
            rate_per_s=rate_per_s,
            queries=queries,
            seconds=queries / rate_per_s,
            is_full=is_full,
            end_at_late_share=allowed if is_full else _REJECTED * self.goal.allowance,
        )


def _higher(rate_per_s: float, aimed_per_s: float, failed_per_s: float) -> float:
    """Return the rate to try above one that was shown: the one aimed at, or far below one that failed the middle."""
    higher_per_s = min(_MOST_UP * rate_per_s, aimed_per_s)
    if _WIDE * rate_per_s < failed_per_s < math.inf:
        higher_per_s = max(higher_per_s, math.sqrt(rate_per_s * failed_per_s))
    return _rounded(higher_per_s)


def _rounded(rate_per_s: float) -> float:
    """Return a rate as a person would write it."""
    return float(f"{rate_per_s:.{_DIGITS}g}")  # infinity stays
