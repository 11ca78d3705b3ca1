"""The kinds of numbers that are guarded, each with a margin and a noise of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mlbench.comparison.effect import Effect
from mlbench.comparison.spread import USUAL, Assumed
from mlbench.comparison.verdicts import MARGIN, SpeedVerdict
from mlbench.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureKind:
    """Numbers that are judged together: a false alarm in one of a hundred comparisons of equals."""

    name: str
    margin: float
    """Changes below it count as the same."""
    assumed: Assumed
    """How much sessions differ where too few are known. Source: docs/decisions/0058."""
    witnesses: str = ""
    """The kind whose numbers in other cells show that the machine changed, so that a loss is only suspected; empty: a
    machine's state does not change these numbers."""
    is_exact: bool = False
    """Whether equal runs give equal numbers, so that no noise is estimated."""
    is_amount: bool = True
    """Whether reports show an amount that grows, not a speed that falls."""
    shows_speed: bool = False
    """Whether a comparison that judges it says something about how fast a product is."""


_OF_PROCESSOR_TIME = Assumed(spread=0.015, freedom=8, correlation=0.3)
_OF_MEMORY = Assumed(spread=0.01, freedom=8, correlation=0.5)
_OF_START_UP = Assumed(spread=0.3, freedom=30, correlation=0.5)

SPEED = MeasureKind(name="speed", margin=MARGIN, assumed=USUAL, witnesses="speed", is_amount=False, shows_speed=True)
PROCESSOR_TIME = MeasureKind(
    name="processor time", margin=0.02, assumed=_OF_PROCESSOR_TIME, witnesses="processor time", shows_speed=True
)
MEMORY = MeasureKind(name="memory", margin=0.05, assumed=_OF_MEMORY)
START_UP = MeasureKind(name="start-up", margin=0.2, assumed=_OF_START_UP, witnesses="speed")
WORK = MeasureKind(name="work", margin=0.01, assumed=USUAL, is_exact=True)

KINDS: Mapping[str, MeasureKind] = {each.name: each for each in (SPEED, PROCESSOR_TIME, MEMORY, START_UP, WORK)}
"""By name, in the order in which they are reported."""


def margins_of(given: float | Mapping[str, float]) -> dict[str, float]:
    """Return the margin of each kind, by name.

    Args:
        given: that of speeds, or some by the name of their kind; the others are the kinds' own.

    Raises:
        UsageError: there is no such kind, or a margin is no share.
    """
    found = given if isinstance(given, Mapping) else {SPEED.name: given}
    for name, share in found.items():
        kind_named(name)
        if not 0 <= share < 1:
            raise UsageError(
                f"margin of {name} is {share:g}." if isinstance(given, Mapping) else f"margin is {share:g}.",
                hint="It is a share from 0 to below 1.",
            )
    return {name: kind.margin for name, kind in KINDS.items()} | {kind_named(name).name: v for name, v in found.items()}


def kind_named(name: str) -> MeasureKind:
    """Return a kind by its name, however it is hyphenated: ``startup``.

    Raises:
        UsageError: there is none.
    """
    plain = {_plain(each): kind for each, kind in KINDS.items()}
    if _plain(name) not in plain:
        known = ", ".join(each.replace(" ", "-") for each in KINDS)
        raise UsageError(f"unknown kind of numbers {name!r}.", hint=f"There are {known}.")
    return plain[_plain(name)]


def of_kind(verdict: SpeedVerdict, kind: MeasureKind) -> SpeedVerdict:
    """Return a verdict in the words of a kind: an amount is not slower, but worse."""
    amounts = {SpeedVerdict.SLOWER: SpeedVerdict.WORSE, SpeedVerdict.FASTER: SpeedVerdict.BETTER}
    return amounts.get(verdict, verdict) if kind.is_amount else verdict


def in_direction(effect: Effect, kind: MeasureKind) -> Effect:
    """Return an effect in the direction of a kind: of an amount, 2 is twice as much."""
    if not kind.is_amount:
        return effect
    ratio, low, high = (1 / value if value else math.inf for value in (effect.ratio, effect.high, effect.low))
    return replace(effect, ratio=ratio, low=low, high=high)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace(" ", "").replace("_", "")
