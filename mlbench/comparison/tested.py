"""A difference between two sides, and the noise it is judged by. Takes numbers, and knows nothing of runs.

A session is the logarithms of its runs, signed so that more is better: `signed_logarithm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from mlbench.comparison.effect import Effect, effect_of_pairs, effect_of_sessions
from mlbench.comparison.spread import (
    USUAL,
    Assumed,
    Session,
    Source,
    Spread,
    drop_sessions_like,
    measure_spread,
    without_odd_runs,
)
from mlbench.comparison.states import find_states

MOST_SESSIONS = 60
"""Number of the newest sessions of a history that count: machines change over time."""


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


def signed_logarithm(value: float, *, higher_is_better: bool) -> float:
    """Return the logarithm of a number above 0, signed so that more is better."""
    return math.log(value) * (1 if higher_is_better else -1)


def compare_values(
    base: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    *,
    higher_is_better: bool,
    margin: float,
    history: Sequence[Sequence[float]] = (),
) -> Tested | None:
    """Judge a difference between two sides of positive numbers; None where all of them are one number.

    Args:
        base: by session (hours or a day apart), the number of each of its runs.
        new: likewise.
        higher_is_better: as a throughput, not a time.
        margin: changes below it count as the same.
        history: other sessions of the base, oldest first; ten in all show how much sessions differ.
    """
    ours, theirs, known = (
        [[signed_logarithm(value, higher_is_better=higher_is_better) for value in session] for session in side]
        for side in (base, new, history)
    )
    return compare_by_sessions(ours, theirs, before=[*known, *ours], after=(), margin=margin)


def compare_pairs(differences: Sequence[float]) -> Tested:
    """Compare pairs: the differences of the logarithms of interleaved runs, at least two."""
    (usual,) = without_odd_runs([differences])
    odd = tuple(each for each in differences if each not in usual)
    effect, count, between = effect_of_pairs(usual), len(usual), float(np.std(usual, ddof=1))
    spread = Spread(source=Source.TURNS, between=between, within=0.0, repeats=1, freedom=count - 1, count=count)
    return Tested(effect=effect, foreseen=effect, spread=spread, odd=odd)


def compare_by_sessions(  # noqa: PLR0913 - two sides, the sessions before and after, and two assumptions
    base: Sequence[Session],
    new: Sequence[Session],
    *,
    before: Sequence[Session],
    after: Sequence[Session],
    margin: float,
    assumed: Assumed = USUAL,
) -> Tested | None:
    """Judge a difference by how much sessions of one kind differ; None where that is unknown.

    Args:
        base: signed logarithms of its runs, by session.
        new: likewise.
        before: all sessions up to the newest of the base's, the base's among them, oldest first.
        after: those since then, without the new ones.
        margin: changes below it count as the same.
        assumed: how much sessions differ where too few are known.
    """
    (base, new, before, after), odd = _without_odd_runs(base, new, before, after)
    is_change = abs(_level(new) - _level(base)) > math.log1p(margin)
    known = [*before, *(drop_sessions_like(_level(new), _level(base), after) if is_change else after)]
    spread, whole = (_spread_by_state(each[-MOST_SESSIONS:], margin, assumed) for each in (known, [*before, *after]))
    if spread is None or whole is None:
        return None
    effect, foreseen = (effect_of_sessions(base, new, each) for each in (spread, whole))
    return Tested(effect=effect, foreseen=foreseen, spread=spread, odd=odd)


def compare_deliberate(
    base: Sequence[Session],
    new: Sequence[Session],
    *,
    of_base: Sequence[Session],
    of_new: Sequence[Session],
    assumed: Assumed = USUAL,
) -> Tested | None:
    """Judge a difference between sides that differ on purpose; None where nothing shows how much sessions differ.

    Args:
        base: signed logarithms of its runs, by session.
        new: likewise.
        of_base: all sessions of the base's kind, the base's among them, oldest first.
        of_new: earlier sessions of the new side's kind.
        assumed: how much sessions differ where too few are known.
    """
    (base, new, *groups), odd = _without_odd_runs(base, new, of_base, of_new)
    spread = measure_spread(groups, assumed)
    if spread is None:
        return None
    effect = effect_of_sessions(base, new, spread)
    return Tested(effect=effect, foreseen=effect, spread=spread, is_deliberate=True, odd=odd)


def _without_odd_runs(*groups: Sequence[Session]) -> tuple[list[list[Session]], tuple[float, ...]]:
    """Return groups of sessions without the odd runs of each session, and what these were in the first two groups."""
    kept = iter(without_odd_runs([session for group in groups for session in group]))
    found = [[next(kept) for _ in group] for group in groups]
    pairs = zip(chain(*groups[:2]), chain(*found[:2]), strict=True)
    return found, tuple(value for session, left in pairs for value in session if value not in left)


def _spread_by_state(sessions: Sequence[Session], margin: float, assumed: Assumed) -> Spread | None:
    """Return the spread of sessions at one speed of the machine, and the distance between its speeds."""
    states = find_states(sessions, margin)
    spread = measure_spread(states.sessions, assumed)
    if spread is None or not states.returns:
        return spread
    return replace(spread, slowest=min(states.levels), fastest=max(states.levels), returns=states.returns)


def _level(sessions: Sequence[Session]) -> float:
    return float(np.mean([np.mean(session) for session in sessions]))
