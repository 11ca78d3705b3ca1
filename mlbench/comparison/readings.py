"""One number of many runs on two sides: which of them make a session or a pair, and what they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mlbench.comparison.effect import Effect, unknown_effect
from mlbench.comparison.sessions import LEAST_PAIRS, pairs_in_turns, split_sessions
from mlbench.comparison.spread import USUAL, Assumed, Session, Source
from mlbench.comparison.tested import Tested, compare_by_sessions, compare_deliberate, compare_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One number of one run."""

    run_id: str
    created: datetime
    duration_ns: int | None
    value: float | None
    """Its logarithm, signed so that more is better (`tested.signed_logarithm`); None where the run does not count."""
    partner: str = ""
    """Id of the run that it was measured side by side with; empty: by itself."""
    apart: float = 0.0
    """The difference to the partner's, as measured side by side: it repeats more closely than the two numbers do."""

    def minus(self, other: Reading) -> float | None:
        """Return the difference to another run's, side by side where it was measured; None where one is missing."""
        if self.value is None or other.value is None:
            return None
        if self.partner == other.run_id:
            return self.apart
        return -other.apart if other.partner == self.run_id else self.value - other.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One number on both sides, in any order."""

    base: Sequence[Reading]
    new: Sequence[Reading]
    again: Sequence[Reading] = ()
    """The base measured again, interleaved with the new runs; where given, the new ones are compared with these."""
    of_base: Sequence[Reading] = ()
    """Other runs of the base's kind, made before the new ones."""
    of_new: Sequence[Reading] | None = None
    """Likewise of the new side's kind, where the sides differ on purpose; None: they are of one kind."""


def measure_difference(
    sides: Readings, margin: float, assumed: Assumed = USUAL
) -> tuple[Tested | None, Effect | None, str]:
    """Return the effect with its noise, the effect alone, and why it cannot have a verdict.

    Both sides have a number. Pairs of interleaved runs count where there are enough, sessions otherwise.
    """
    differences = [apart for *_, apart in differences_of_pairs(sides)]
    if len(differences) >= LEAST_PAIRS:
        by_pairs = compare_pairs(differences)
        return by_pairs, by_pairs.effect, ""
    ours, theirs = in_sessions(sides.again or sides.base), in_sessions(sides.new)
    unknown = unknown_effect(*([value for session in side for value in session] for side in (ours, theirs)))
    if sides.again:
        return None, unknown, f"the base was measured again, but not in at least {LEAST_PAIRS} turns with the new runs"
    tested = _by_sessions(sides, margin, assumed)
    if tested is None:
        return None, unknown, "one run cannot show noise; repeat the base with --repeat 5, and measure on more days"
    return tested, tested.effect, ""


def odd_runs(sides: Readings, tested: Tested) -> Iterator[str]:
    """Yield the runs that a comparison left out, or pairs of runs."""
    if tested.spread.source is Source.TURNS:
        pairs = differences_of_pairs(sides)
        yield from (f"{one.run_id} and {other.run_id}" for one, other, apart in pairs if apart in tested.odd)
        return
    yield from (each.run_id for each in (*sides.base, *sides.new) if each.value in tested.odd)


def differences_of_pairs(sides: Readings) -> list[tuple[Reading, Reading, float]]:
    """Return interleaved runs by pair, and the difference of their logarithms; pairs with a failed run are left out."""
    pairs = pairs_in_turns(sides.again or sides.base, sides.new)
    return [(base, new, apart) for base, new in pairs if (apart := new.minus(base)) is not None]


def in_sessions(readings: Sequence[Reading]) -> list[Session]:
    """Return the signed logarithms of each session's runs, oldest first."""
    by_session = (
        [each.value for each in session if each.value is not None]
        for session in split_sessions([each for each in readings if each.value is not None])
    )
    return [session for session in by_session if session]


def _by_sessions(sides: Readings, margin: float, assumed: Assumed) -> Tested | None:
    """Judge a difference by the sessions of the base and earlier ones of the same kind.

    Where the sides differ on purpose, earlier sessions of the new side's kind are a group of their own.
    """
    ours, theirs = in_sessions(sides.base), in_sessions(sides.new)
    if sides.of_new is not None:
        of_base, of_new = in_sessions([*sides.base, *sides.of_base]), in_sessions(sides.of_new)
        return compare_deliberate(ours, theirs, of_base=of_base, of_new=of_new, assumed=assumed)
    last = max(each.created for each in sides.base if each.value is not None)
    before = [*sides.base, *(each for each in sides.of_base if each.created <= last)]
    after = [each for each in sides.of_base if each.created > last]
    known = in_sessions(before), in_sessions(after)
    return compare_by_sessions(ours, theirs, before=known[0], after=known[1], margin=margin, assumed=assumed)
