"""The numbers of a cell on both sides: their difference, and the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from mlbench.comparison.comparability import knowing
from mlbench.comparison.effect import Effect, effect_of_pairs, effect_of_sessions, is_bimodal, unknown_effect
from mlbench.comparison.measures import measures_of, why_loads_differ, why_not_counted
from mlbench.comparison.sessions import LEAST_PAIRS, pairs_in_turns, split_sessions
from mlbench.comparison.spread import (
    Session,
    Source,
    Spread,
    drop_sessions_like,
    measure_spread,
    without_odd_runs,
)
from mlbench.comparison.states import find_states
from mlbench.records.facts import conditions_of
from mlbench.records.run_record import RunRecord

MOST_SESSIONS = 60
"""Number of the newest sessions of a history that count: machines change over time."""


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
class Tested:
    """An effect, and the noise it is judged by."""

    effect: Effect
    foreseen: Effect
    """The same with the error that a session with a slowdown would have; the detectable slowdown follows from it."""
    spread: Spread
    is_deliberate: bool = False
    """Whether the sides differ on purpose, so that all numbers may well have changed together."""
    odd: tuple[float, ...] = ()
    """The logarithms of runs, or the differences of pairs, that were left out: far from the others of their session."""


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
    return [_speed(name, sides, margin) for name in first if name in second]


def _counted(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [record for record in records if not why_not_counted(record)]


def _speed(name: str, sides: Sides, margin: float) -> Speed:
    base, new = _counted(sides.again or sides.base), _counted(sides.new)
    ours, theirs = (
        [each for record in side for each in measures_of(record) if each.name == name] for side in (base, new)
    )
    one, other = (tuple(each.value for each in side) for side in (ours, theirs))
    tested, effect, reason = _test_speed(name, sides, margin)
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
        odd=tuple(_odd_runs(name, sides, tested)) if tested else (),
    )


def _odd_runs(name: str, sides: Sides, tested: Tested) -> Iterator[str]:
    """Yield the runs that a comparison left out, or pairs of runs."""
    if tested.spread.source is Source.TURNS:
        pairs = _differences_of_pairs(name, sides)
        yield from (f"{one.run_id} and {other.run_id}" for one, other, apart in pairs if apart in tested.odd)
        return
    for record in _counted((*sides.base, *sides.new)):
        if _logarithm(record, name) in tested.odd:
            yield record.run_id


def _test_speed(name: str, sides: Sides, margin: float) -> tuple[Tested | None, Effect | None, str]:
    """Return the effect with its noise, the effect alone, and why it cannot have a verdict."""
    base, new = _counted(sides.again or sides.base), _counted(sides.new)
    if reason := why_loads_differ([*base, *new]):
        return None, None, reason
    differences = [apart for *_, apart in _differences_of_pairs(name, sides)]
    if len(differences) >= LEAST_PAIRS:
        by_pairs = compare_pairs(differences)
        return by_pairs, by_pairs.effect, ""
    ours, theirs = _in_sessions(name, base), _in_sessions(name, new)
    unknown = unknown_effect(*([value for session in side for value in session] for side in (ours, theirs)))
    if sides.again:
        return None, unknown, f"the base was measured again, but not in at least {LEAST_PAIRS} turns with the new runs"
    tested = _by_sessions(name, sides, margin)
    if tested is None:
        return (
            None,
            unknown,
            "one run cannot show noise; repeat the base with --repeat 5, and measure on more days",
        )
    return tested, tested.effect, ""


def _differences_of_pairs(name: str, sides: Sides) -> list[tuple[RunRecord, RunRecord, float]]:
    """Return interleaved runs by pair, and the difference of their logarithms; pairs with a failed run are left out."""
    pairs = pairs_in_turns(sides.again or sides.base, sides.new)
    whole = [pair for pair in pairs if not any(map(why_not_counted, pair))]
    values = ((pair, _logarithm(pair[0], name), _logarithm(pair[1], name)) for pair in whole)
    return [(*pair, new - base) for pair, base, new in values if base is not None and new is not None]


def compare_pairs(differences: Sequence[float]) -> Tested:
    """Compare pairs: the differences of the logarithms of interleaved runs, at least two."""
    (usual,) = without_odd_runs([differences])
    odd = tuple(each for each in differences if each not in usual)
    effect, count, between = effect_of_pairs(usual), len(usual), float(np.std(usual, ddof=1))
    spread = Spread(source=Source.TURNS, between=between, within=0.0, repeats=1, freedom=count - 1, count=count)
    return Tested(effect=effect, foreseen=effect, spread=spread, odd=odd)


def compare_by_sessions(
    base: Sequence[Session],
    new: Sequence[Session],
    *,
    before: Sequence[Session],
    after: Sequence[Session],
    margin: float,
) -> Tested | None:
    """Judge a difference by how much sessions of one kind differ; None where that is unknown.

    Args:
        base: signed logarithms of its runs, by session.
        new: likewise.
        before: all sessions up to the newest of the base's, the base's among them, oldest first.
        after: those since then, without the new ones.
        margin: changes below it count as the same.
    """
    (base, new, before, after), odd = _without_odd_runs(base, new, before, after)
    is_change = abs(_level(new) - _level(base)) > math.log1p(margin)
    known = [*before, *(drop_sessions_like(_level(new), _level(base), after) if is_change else after)]
    spread, whole = (_spread_by_state(each[-MOST_SESSIONS:], margin) for each in (known, [*before, *after]))
    if spread is None or whole is None:
        return None
    effect, foreseen = (effect_of_sessions(base, new, each) for each in (spread, whole))
    return Tested(effect=effect, foreseen=foreseen, spread=spread, odd=odd)


def _without_odd_runs(*groups: Sequence[Session]) -> tuple[list[list[Session]], tuple[float, ...]]:
    """Return groups of sessions without the odd runs of each session, and what these were in the first two groups."""
    kept = iter(without_odd_runs([session for group in groups for session in group]))
    found = [[next(kept) for _ in group] for group in groups]
    pairs = zip(chain(*groups[:2]), chain(*found[:2]), strict=True)
    return found, tuple(value for session, left in pairs for value in session if value not in left)


def _spread_by_state(sessions: Sequence[Session], margin: float) -> Spread | None:
    """Return the spread of sessions at one speed of the machine, and the distance between its speeds."""
    states = find_states(sessions, margin)
    spread = measure_spread(states.sessions)
    if spread is None or not states.returns:
        return spread
    return replace(spread, slowest=min(states.levels), fastest=max(states.levels), returns=states.returns)


def _level(sessions: Sequence[Session]) -> float:
    return float(np.mean([np.mean(session) for session in sessions]))


def _by_sessions(name: str, sides: Sides, margin: float) -> Tested | None:
    """Judge a difference by the sessions of the base and earlier ones of the same kind.

    Where the sides differ on purpose, earlier sessions of the new side's kind are a group of their own.
    """
    base, new = _counted(sides.base), _counted(sides.new)
    ours, theirs = _in_sessions(name, base), _in_sessions(name, new)
    named = {record.run_id for record in (*sides.base, *sides.new)}
    until, last = min(record.created for record in new), max(record.created for record in base)
    earlier = [
        record for record in _counted(knowing(sides.history)) if record.run_id not in named and record.created < until
    ]
    base_facts, new_facts = conditions_of(base[0]), conditions_of(new[0])
    facts = [conditions_of(record) for record in earlier]
    of_base = [record for record, each in zip(earlier, facts, strict=True) if each == base_facts]
    if base_facts == new_facts:
        before = [*base, *(record for record in of_base if record.created <= last)]
        after = [record for record in of_base if record.created > last]
        known = _in_sessions(name, before), _in_sessions(name, after)
        return compare_by_sessions(ours, theirs, before=known[0], after=known[1], margin=margin)
    of_new = [record for record, each in zip(earlier, facts, strict=True) if each == new_facts]
    known = _in_sessions(name, [*base, *of_base]), _in_sessions(name, of_new)
    (ours, theirs, *groups), odd = _without_odd_runs(ours, theirs, *known)
    spread = measure_spread(groups)
    if spread is None:
        return None
    effect = effect_of_sessions(ours, theirs, spread)
    return Tested(effect=effect, foreseen=effect, spread=spread, is_deliberate=True, odd=odd)


def _in_sessions(name: str, records: Sequence[RunRecord]) -> list[Session]:
    """Return the signed logarithms of each session's runs, oldest first."""
    by_session = ([_logarithm(record, name) for record in session] for session in split_sessions(records))
    known = ([value for value in session if value is not None] for session in by_session)
    return [session for session in known if session]


def _logarithm(record: RunRecord, name: str) -> float | None:
    """Return the logarithm of a run's number, signed so that more is faster; None where the run has no such number."""
    for measure in measures_of(record):
        if measure.name == name:
            return math.log(measure.value) * (1 if measure.higher_is_better else -1)
    return None
