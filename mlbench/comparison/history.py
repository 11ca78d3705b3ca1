"""A metric over many runs: changes of its level, their size, and other changes at that time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mlbench.comparison.comparability import Difference, differences, further_differences, key_of
from mlbench.comparison.compare import cell_name
from mlbench.comparison.effect import Effect
from mlbench.comparison.kinds import KINDS, SPEED, MeasureKind, in_direction, margins_of, of_kind
from mlbench.comparison.measures import Measure, measures_of, why_loads_differ, why_not_counted
from mlbench.comparison.resources import processor_time_of, resources_of
from mlbench.comparison.sessions import split_sessions, split_tags
from mlbench.comparison.spread import usual_mean
from mlbench.comparison.steps import SHORTEST, session_means, spread_of, steps_in
from mlbench.comparison.verdicts import MARGIN, SpeedVerdict
from mlbench.records.facts import CONDITIONS
from mlbench.records.run_record import RunRecord

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
    """Effect of the level after it against the level before; of an amount, 2 is twice as much."""
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
    kind: str = SPEED.name
    """The name of its `kinds.MeasureKind`."""
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
    margin: float | Mapping[str, float] = MARGIN,
    whole: Callable[[RunRecord], RunRecord] = lambda record: record,
) -> list[History]:
    """Return the history of each number of each kind of run, in the order of their names.

    Args:
        records: of any kinds, in any order.
        margin: smaller relative steps are ignored: of speeds, or by the names of `kinds.KINDS`.
        whole: reads the rest of a record that was read in part; called for the runs before and after each step.

    Raises:
        UsageError: ruptures is not installed.
    """
    kinds: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in sorted(records, key=lambda record: record.created):
        kind = (*key_of(record, ()), *(CONDITIONS[name](record) for name in _SAME_THROUGHOUT))
        kinds.setdefault(kind, []).append(record)
    margins = margins_of(margin)
    return [history for kind in sorted(kinds) for history in _histories(kinds[kind], margins, whole)]


def _histories(
    records: Sequence[RunRecord], margins: Mapping[str, float], whole: Callable[[RunRecord], RunRecord]
) -> Sequence[History]:
    """Return a history for each measure of runs of one kind."""
    counted = [record for record in records if not why_not_counted(record)]
    measures = [_numbers(record) for record in counted]
    differ = why_loads_differ(counted)
    found = []
    for name in dict.fromkeys(name for each in measures for name in each):
        runs = [(record, each[name]) for record, each in zip(counted, measures, strict=True) if name in each]
        kind = KINDS[runs[0][1].kind]
        history = _history(runs, margins[kind.name], differ if kind is SPEED else "", whole)
        taken = len(runs) if kind is SPEED else len(counted)
        found.append(replace(history, set_aside=len(records) - taken))
    return found


def _numbers(record: RunRecord) -> Mapping[str, Measure]:
    return {each.name: each for each in (*measures_of(record), *processor_time_of(record), *resources_of(record))}


def _history(
    runs: Sequence[tuple[RunRecord, Measure]], margin: float, reason: str, whole: Callable[[RunRecord], RunRecord]
) -> History:
    first, kind, found = runs[0][1], KINDS[runs[0][1].kind], {id(record): measure.value for record, measure in runs}
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
        kind=first.kind,
        points=tuple(points),
        spread=spread_of(session_means(values, among)),
        steps=tuple(
            _step(index, effect, kind, before=whole(groups[index - 1][1][-1]), after=whole(groups[index][1][0]))
            for index, effect in steps
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


def _step(index: int, effect: Effect, kind: MeasureKind, *, before: RunRecord, after: RunRecord) -> Step:
    return Step(
        index=index,
        effect=in_direction(effect, kind),
        verdict=of_kind(SpeedVerdict.FASTER if effect.ratio > 1 else SpeedVerdict.SLOWER, kind),
        differences=(*differences(before, after), *further_differences(before, after)),
    )
