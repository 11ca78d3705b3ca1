"""The numbers of a cell on both sides, from the records of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlbench.comparison.comparability import knowing
from mlbench.comparison.effect import Effect, is_bimodal
from mlbench.comparison.measures import measures_of, why_loads_differ, why_not_counted
from mlbench.comparison.readings import Reading, Readings, measure_difference, odd_runs
from mlbench.comparison.tested import Tested, signed_logarithm
from mlbench.records.facts import conditions_of
from mlbench.records.run_record import RunRecord


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
    base: tuple[float, ...]
    new: tuple[float, ...]
    effect: Effect | None
    tested: Tested | None
    """The effect with its noise; None where there is nothing to compare."""
    reason: str
    """Reason why it cannot be called the same, even if it looks so; empty otherwise."""
    odd: tuple[str, ...] = ()
    """Runs that are far from the others of their session, and left out of the effect."""


def measure_speeds(sides: Sides, margin: float) -> list[Speed]:
    """Return each number that both sides have; both have a valid run. Changes below the margin count as the same."""
    base, new = _counted(sides.again or sides.base), _counted(sides.new)
    first, second = (
        dict.fromkeys(each.name for record in side for each in measures_of(record)) for side in (base, new)
    )
    of_base, of_new = _earlier(sides)
    return [_speed(name, sides, (of_base, of_new), margin) for name in first if name in second]


def _counted(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [record for record in records if not why_not_counted(record)]


Earlier = tuple[Sequence[RunRecord], Sequence[RunRecord] | None]
"""Other runs of the base's kind, and of the new side's; None where that is the same kind."""


def _earlier(sides: Sides) -> Earlier:
    """Return the runs of a history that were made under the same conditions as a side, before the new ones."""
    base, new = _counted(sides.base), _counted(sides.new)
    named = {record.run_id for record in (*sides.base, *sides.new)}
    until = min(record.created for record in new)
    known = _counted(knowing(sides.history))
    earlier = [
        (conditions_of(record), record) for record in known if record.run_id not in named and record.created < until
    ]
    base_facts, new_facts = conditions_of(base[0]), conditions_of(new[0])
    of_base, of_new = ([record for each, record in earlier if each == facts] for facts in (base_facts, new_facts))
    return of_base, None if base_facts == new_facts else of_new


def _speed(name: str, sides: Sides, earlier: Earlier, margin: float) -> Speed:
    base, new = _counted(sides.again or sides.base), _counted(sides.new)
    ours, theirs = (
        [each for record in side for each in measures_of(record) if each.name == name] for side in (base, new)
    )
    one, other = (tuple(each.value for each in side) for side in (ours, theirs))
    readings, tested, effect = _readings(name, sides, earlier), None, None
    if not (reason := why_loads_differ([*base, *new])):
        tested, effect, reason = measure_difference(readings, margin)
    humps = [side for side, values in (("base", one), ("new", other)) if is_bimodal(values)]
    if tested and humps:
        reason = f"the {humps[0]} runs are bimodal: something switched between two states"
    return Speed(
        name=name,
        unit=theirs[0].unit,
        base=one,
        new=other,
        effect=effect,
        tested=tested,
        reason=reason,
        odd=tuple(odd_runs(readings, tested)) if tested else (),
    )


def _readings(name: str, sides: Sides, earlier: Earlier) -> Readings:
    """Return one number of all runs: the only place where records become the numbers that are compared."""
    base, new, again, of_base, of_new = (
        [_reading(name, record) for record in records or ()]
        for records in (sides.base, sides.new, sides.again, *earlier)
    )
    return Readings(base=base, new=new, again=again, of_base=of_base, of_new=None if earlier[1] is None else of_new)


def _reading(name: str, record: RunRecord) -> Reading:
    found = () if why_not_counted(record) else (each for each in measures_of(record) if each.name == name)
    values = [signed_logarithm(each.value, higher_is_better=each.higher_is_better) for each in found]
    return Reading(
        run_id=record.run_id,
        created=record.created,
        duration_ns=record.duration_ns,
        value=values[0] if values else None,
    )
