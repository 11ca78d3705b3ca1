"""A metric over many runs: changes of its level, their size, and other changes at that time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import numpy as np

from mlbench.comparison.comparability import Difference, differences, further_differences, key_of
from mlbench.comparison.compare import cell_name
from mlbench.comparison.effect import Effect, effect_of, unknown_effect
from mlbench.comparison.measures import Measure, measures_of, why_loads_differ, why_not_counted
from mlbench.comparison.sessions import split_sessions, split_tags
from mlbench.comparison.spread import usual_mean
from mlbench.comparison.verdicts import MARGIN, SpeedVerdict
from mlbench.errors import UsageError
from mlbench.records.facts import CONDITIONS
from mlbench.records.run_record import RunRecord

SHORTEST = 3
"""The least number of sessions of a level: two that differ from the rest may just be bad days."""

PENALTY = 3.0
"""The penalty of a change point in PELT, in squared spreads times the logarithm of the number of runs."""

CHANCE = 0.01
"""Significance level of a step: stricter than a comparison's, since histories are checked daily."""

_LEAST_SPREAD = 0.001
"""No machine is more repeatable than this; it also avoids a division by zero for identical runs."""

_GAUSSIAN = 1.4826 / math.sqrt(2)
"""Factor from the median distance between neighbours to their standard deviation."""

_SAME_THROUGHOUT = ("hardware", "data", "model")
"""Conditions that start a separate history; the others may explain a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The runs of one tag in one session: repeats are too similar to be separate points."""

    run_id: str
    """The id of its first run."""
    created: datetime
    value: float
    """The geometric mean of its runs."""
    session: int
    """Index of its session: points of one session share the machine's state."""
    tag: str = ""
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of level."""

    index: int
    """Index of the first point after it."""
    effect: Effect
    """Effect of the level after it against the level before."""
    verdict: SpeedVerdict
    """Faster or slower."""
    differences: tuple[Difference, ...]
    """Other differences between the last run before it and the first after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Points between two steps."""

    first: int
    last: int
    value: float
    """Their geometric mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One number of runs that are repeats of each other on one machine, oldest first."""

    name: str
    measure: str
    unit: str
    higher_is_better: bool
    points: tuple[Point, ...]
    spread: float
    """Variation from session to session, as a share: 0.01 is one percent. Steps are not part of it."""
    steps: tuple[Step, ...]
    set_aside: int = 0
    """Runs that failed or are INVALID; they are not points."""
    reason: str
    """Reason why steps were not searched; empty otherwise."""

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return self.points[-1].session + 1

    @property
    def levels(self) -> tuple[Level, ...]:
        """The runs before, between and after the steps."""
        starts = [0, *(step.index for step in self.steps)]
        ends = [*starts[1:], len(self.points)]
        values = [point.value for point in self.points]
        return tuple(
            Level(
                first=start, last=end - 1, value=math.exp(math.fsum(map(math.log, values[start:end])) / (end - start))
            )
            for start, end in zip(starts, ends, strict=True)
        )


def histories_of(
    records: Sequence[RunRecord],
    *,
    margin: float = MARGIN,
    whole: Callable[[RunRecord], RunRecord] = lambda record: record,
) -> list[History]:
    """Return the history of each number of each kind of run, in the order of their names.

    Args:
        records: of any kinds, in any order.
        margin: smaller relative steps are ignored.
        whole: reads the rest of a record that was read in part; called for the runs before and after each step.

    Raises:
        UsageError: ruptures is not installed.
    """
    kinds: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in sorted(records, key=lambda record: record.created):
        kind = (*key_of(record, ()), *(CONDITIONS[name](record) for name in _SAME_THROUGHOUT))
        kinds.setdefault(kind, []).append(record)
    return [history for kind in sorted(kinds) for history in _histories(kinds[kind], margin, whole)]


def steps_in(
    values: Sequence[float], *, higher_is_better: bool, margin: float = MARGIN, sessions: Sequence[int] | None = None
) -> list[tuple[int, Effect]]:
    """Return the changes of a series' level, each with its speed-up.

    Steps are proposed by a penalised least-squares fit of levels to the logarithms (PELT). A step is kept if it exceeds
    the margin and is significant in Welch's test, corrected for the choice among all places (Bonferroni); the least
    significant is removed first, and the others are tested again. Values of one session have a machine's state in
    common: the test counts their mean as one, and a level has three sessions at least.

    Args:
        values: positive, oldest first.
        higher_is_better: which way is faster.
        margin: smaller relative steps are ignored.
        sessions: the session of each value; where left out, each value is one.

    Raises:
        UsageError: ruptures is not installed.

    Source: Killick, Fearnhead and Eckley, Optimal detection of changepoints with a linear computational cost, 2012.
    """
    among = range(len(values)) if sessions is None else sessions

    @cache  # removing a step changes only its neighbours
    def effect(before: int, index: int, after: int) -> Effect:
        sides = [_means(values[one:end], among[one:end]) for one, end in ((before, index), (index, after))]
        if min(map(len, sides)) < SHORTEST:
            return unknown_effect(*(list(map(math.log, side)) for side in sides))
        return effect_of(*sides, higher_is_better=higher_is_better)

    proposed = _propose_steps(values, spread_of(_means(values, among)))
    while proposed:
        ends = [0, *proposed, len(values)]
        effects = dict(zip(proposed, map(effect, ends, proposed, ends[2:]), strict=True))
        p_values = {index: _adjust_p_value(effects, index, len(values), margin) for index in proposed}
        least = max(proposed, key=lambda index: (p_values[index], -abs(math.log(effects[index].ratio))))
        if p_values[least] < CHANCE:
            return list(effects.items())
        proposed.remove(least)
    return []


def spread_of(values: Sequence[float]) -> float:
    """Return the variation of a series from one value to the next, as a share, regardless of steps."""
    if len(values) < 2:
        return 0.0
    between = np.diff(np.log(np.asarray(values, dtype=float)))
    return float(_GAUSSIAN * np.median(np.abs(between - np.median(between))))


def _means(values: Sequence[float], sessions: Sequence[int]) -> list[float]:
    """Return the geometric mean of each session's values."""
    found: dict[int, list[float]] = {}
    for value, session in zip(values, sessions, strict=True):
        found.setdefault(session, []).append(value)
    return [usual_mean(some) for some in found.values()]


def _propose_steps(values: Sequence[float], spread: float) -> list[int]:
    try:
        from ruptures import KernelCPD
    except ImportError:
        raise UsageError("steps in a history need ruptures.", hint="pip install 'mlbench-inference[history]'") from None
    if len(values) < 2 * SHORTEST:
        return []
    logarithms = np.log(np.asarray(values, dtype=float)) / max(spread, _LEAST_SPREAD)
    fit = KernelCPD(kernel="linear", min_size=SHORTEST).fit(logarithms.reshape(-1, 1))  # (runs, 1)
    return [int(index) for index in fit.predict(pen=PENALTY * math.log(len(values)))[:-1]]


def _adjust_p_value(effects: Mapping[int, Effect], index: int, count: int, margin: float) -> float:
    """Return the p-value of a step, corrected for the places that it and its neighbours might have had.

    Welch's test compares two levels, whose outer ends were chosen too. Within the margin nothing is a step.
    """
    effect, order = effects[index], list(effects)
    if effect.p_value is None or 1 / (1 + margin) <= effect.ratio <= 1 + margin:
        return 1.0
    beside = (order[0] != index) + (order[-1] != index)
    return float(effect.p_value * (count - 2 * SHORTEST + 1) ** (1 + beside))


def _histories(
    records: Sequence[RunRecord], margin: float, whole: Callable[[RunRecord], RunRecord]
) -> Sequence[History]:
    """Return a history for each measure of runs of one kind."""
    counted = [record for record in records if not why_not_counted(record)]
    measures = [{each.name: each for each in measures_of(record)} for record in counted]
    reason = why_loads_differ(counted)
    found = []
    for name in dict.fromkeys(name for each in measures for name in each):
        runs = [(record, each[name]) for record, each in zip(counted, measures, strict=True) if name in each]
        history = _history(runs, margin, reason, whole)
        found.append(replace(history, set_aside=len(records) - len(runs)))
    return found


def _history(
    runs: Sequence[tuple[RunRecord, Measure]], margin: float, reason: str, whole: Callable[[RunRecord], RunRecord]
) -> History:
    first, found = runs[0][1], {id(record): measure.value for record, measure in runs}
    sessions = split_sessions([record for record, _ in runs])
    groups = [(index, some) for index, session in enumerate(sessions) for some in split_tags(session)]
    points = [_point(some, [found[id(record)] for record in some], index) for index, some in groups]
    values, among = [point.value for point in points], [point.session for point in points]
    if not reason and len(sessions) < 2 * SHORTEST:
        reason = f"{len(sessions)} session{'s' * (len(sessions) > 1)}; a step needs {SHORTEST} on each side"
    better = first.higher_is_better
    steps = [] if reason else steps_in(values, higher_is_better=better, margin=margin, sessions=among)
    return History(
        name=cell_name(runs[0][0]),
        measure=first.name,
        unit=first.unit,
        higher_is_better=first.higher_is_better,
        points=tuple(points),
        spread=spread_of(_means(values, among)),
        steps=tuple(
            _step(index, effect, whole(groups[index - 1][1][-1]), whole(groups[index][1][0])) for index, effect in steps
        ),
        reason=reason,
    )


def _point(runs: Sequence[RunRecord], values: Sequence[float], session: int) -> Point:
    first = runs[0]
    return Point(
        run_id=first.run_id,
        created=first.created,
        value=usual_mean(values),
        session=session,
        tag=first.tag,
        runs=len(runs),
    )


def _step(index: int, effect: Effect, before: RunRecord, after: RunRecord) -> Step:
    return Step(
        index=index,
        effect=effect,
        verdict=SpeedVerdict.FASTER if effect.ratio > 1 else SpeedVerdict.SLOWER,
        differences=(*differences(before, after), *further_differences(before, after)),
    )
