"""The numbers of a cell on both sides, from the records of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlbench.comparison.comparability import knowing
from mlbench.comparison.effect import Effect, is_bimodal
from mlbench.comparison.kinds import KINDS, PROCESSOR_TIME, SPEED, MeasureKind
from mlbench.comparison.measures import (
    Measure,
    is_under_like_load,
    measures_of,
    other_load_of,
    why_loads_differ,
    why_neighbours_differ,
    why_not_counted,
)
from mlbench.comparison.readings import Reading, Readings, measure_difference, odd_runs
from mlbench.comparison.resources import processor_time_of, resources_of, setup_of
from mlbench.comparison.spread import Source
from mlbench.comparison.tested import Tested, signed_logarithm
from mlbench.comparison.verdicts import compare_exactly
from mlbench.records.facts import conditions_of
from mlbench.records.run_record import RunRecord

Numbers = Callable[[RunRecord], Mapping[str, Measure]]
"""Returns the numbers of a run that are compared, by name; none of a run that does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The runs of a cell."""

    base: Sequence[RunRecord]
    new: Sequence[RunRecord]
    again: Sequence[RunRecord] = ()
    """The base measured again, interleaved with the new runs; where given, speeds are compared with these."""
    history: Sequence[RunRecord] = ()
    """Other runs, of any kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One number on both sides, without a verdict."""

    name: str
    unit: str
    kind: MeasureKind
    base: tuple[float, ...]
    new: tuple[float, ...]
    effect: Effect | None
    tested: Tested | None
    """The effect with its noise; None where there is nothing to compare, or no noise."""
    reason: str
    """Reason why it cannot be called the same, even if it looks so; empty otherwise."""
    odd: tuple[str, ...] = ()
    """Runs that are far from the others of their session, and left out of the effect."""


def measure_numbers(sides: Sides, margins: Mapping[str, float]) -> list[Speed]:
    """Return each number that both sides have, speeds first; both sides have a valid run.

    Args:
        sides: the runs.
        margins: by kind; smaller changes count as the same.
    """
    earlier = _earlier(sides)
    numbers = _numbers(sides, is_deliberate=earlier.is_deliberate)
    first, second = (
        dict.fromkeys(name for record in side for name in numbers(record))
        for side in (sides.again or sides.base, sides.new)
    )
    return [_speed(name, sides, earlier, numbers, margins) for name in first if name in second]


def _counted(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [record for record in records if not why_not_counted(record)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Earlier:
    """Runs of a history that were made under the same conditions and like load as a side, before the new ones."""

    of_base: Sequence[RunRecord]
    of_new: Sequence[RunRecord]
    is_deliberate: bool
    """Whether the sides differ in these conditions, which somebody allowed."""


def _earlier(sides: Sides) -> _Earlier:
    base, new = _counted(sides.base), _counted(sides.new)
    named = {record.run_id for record in (*sides.base, *sides.new)}
    until = min(record.created for record in new)
    share = other_load_of([*base, *new])
    known = [each for each in _counted(knowing(sides.history)) if is_under_like_load(each, share)]
    earlier = [
        (conditions_of(record), record) for record in known if record.run_id not in named and record.created < until
    ]
    base_facts, new_facts = conditions_of(base[0]), conditions_of(new[0])
    of_base, of_new = ([record for each, record in earlier if each == facts] for facts in (base_facts, new_facts))
    return _Earlier(of_base=of_base, of_new=of_new, is_deliberate=base_facts != new_facts)


def shared_setup(sides: Sides) -> tuple[str, str]:
    """Return the setup that most runs of both sides have, and why there is none; one of the two is empty."""
    setups = [Counter(map(setup_of, _counted(side))) for side in (sides.again or sides.base, sides.new)]
    shared = max(setups[0].keys() & setups[1].keys(), key=lambda each: min(side[each] for side in setups), default="")
    if shared or not all(setups):
        return shared, ""
    base, new = (next(iter(side)) for side in setups)
    return "", f"memory and start-up are not compared: the base had {base}, the new side {new}"


def _numbers(sides: Sides, *, is_deliberate: bool) -> Numbers:
    """Return how the numbers of a run are read; of resources only where its setup is the one that both sides have.

    The batch that a run chose by measuring decides its memory, and is no property of the product. Of sides that differ
    on purpose each has its own.
    """
    shared, _ = shared_setup(sides)
    found: dict[int, Mapping[str, Measure]] = {}

    def numbers(record: RunRecord) -> Mapping[str, Measure]:
        if id(record) not in found:
            has_setup = is_deliberate or setup_of(record) == shared
            resources = resources_of(record) if has_setup else ()
            measures = [*measures_of(record), *processor_time_of(record), *resources]
            found[id(record)] = {} if why_not_counted(record) else {each.name: each for each in measures}
        return found[id(record)]

    return numbers


def _speed(name: str, sides: Sides, earlier: _Earlier, numbers: Numbers, margins: Mapping[str, float]) -> Speed:
    base, new = (
        [numbers(record)[name] for record in side if name in numbers(record)]
        for side in (sides.again or sides.base, sides.new)
    )
    one, other = (tuple(each.value for each in side) for side in (base, new))
    kind = KINDS[new[0].kind]
    readings, margin, tested, effect = _readings(name, sides, earlier, numbers), margins[kind.name], None, None
    reason = why_loads_differ(_counted([*(sides.again or sides.base), *sides.new])) if kind is SPEED else ""
    if kind.is_exact:
        effect, reason = compare_exactly(one, other, margin)
    elif not reason:
        tested, effect, reason = measure_difference(readings, margin, kind.assumed)
    if kind is PROCESSOR_TIME and tested and tested.spread.source is not Source.TURNS:
        reason = why_neighbours_differ(_counted(sides.base), _counted(sides.new))
        tested = None if reason else tested
    humps = [side for side, values in (("base", one), ("new", other)) if is_bimodal(values)]
    if tested and humps:
        reason = f"the {humps[0]} runs are bimodal: something switched between two states"
    return Speed(
        name=name,
        unit=new[0].unit,
        kind=kind,
        base=one,
        new=other,
        effect=effect,
        tested=tested,
        reason=reason,
        odd=tuple(odd_runs(readings, tested)) if tested else (),
    )


def _readings(name: str, sides: Sides, earlier: _Earlier, numbers: Numbers) -> Readings:
    """Return one number of all runs: the only place where records become the numbers that are compared."""

    def read(record: RunRecord) -> Reading:
        found = numbers(record).get(name)
        own = Reading(run_id=record.run_id, created=record.created, duration_ns=record.duration_ns, value=None)
        if found is None:
            return own
        value, apart = (
            signed_logarithm(each, higher_is_better=found.higher_is_better) for each in (found.value, found.ratio)
        )
        return replace(own, value=value, partner=found.partner, apart=apart)

    return Readings(
        base=[*map(read, sides.base)],
        new=[*map(read, sides.new)],
        again=[*map(read, sides.again)],
        of_base=[*map(read, earlier.of_base)],
        of_new=[*map(read, earlier.of_new)] if earlier.is_deliberate else None,
    )
