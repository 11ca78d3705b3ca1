"""What the numbers of a night amount to, all of them judged together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from mlbench.comparison.effect import Effect, MachineSteps, adjust_p_values, beyond_steps, with_steps
from mlbench.comparison.speeds import Tested
from mlbench.comparison.spread import Source

MARGIN = 0.05
"""Below it nothing is called a change, however sure: machines differ by that much from day to day."""

ALPHA = 0.01
"""How often a comparison of equals, all its numbers together, may be sure of a difference somewhere: a suite that runs
every night would else cry wolf every few weeks."""

LEAST_WITNESSES = 3
"""Fewer numbers of other cells do not show whether the machine moved as a whole."""

LEAST_RETURNS = 2
"""So often must cells have come back to a speed that they had left before others are taken to do so too: one return may
be a loss that was mended."""


class SpeedVerdict(StrEnum):
    """What a comparison says of one number."""

    FASTER = "faster"
    SLOWER = "slower"
    SUSPECTED = "suspected"
    """Slower, but other cells changed too: the machine may be what did."""
    SAME = "same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number to be judged."""

    cell: tuple[str, ...]
    tested: Tested
    is_result: bool = True
    """Whether it is a throughput or a latency, not a tail or an energy: a machine's speeds show in all of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """The other cells, where as many of them changed on the same night as did not."""

    changed: int
    """How many changed by more than the margin, either way."""
    count: int
    ratio: float
    """Of the middle one of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A number's verdict, and what it rests on."""

    verdict: SpeedVerdict
    tested: Tested
    """With the steps that other numbers showed the machine to make."""
    companions: Companions | None = None
    """Why it is suspected only."""


def judge_together(numbers: Sequence[Number], margin: float) -> list[Decision]:
    """Return the verdict of each number of a night.

    All of them together are falsely sure of a difference in one of a hundred nights (Holm). Steps that a machine was
    seen to make and to take back count for all results: a cell that has not shown its second speed yet has one too. And
    where half of the other cells changed on the same night, a loss may be the machine's, or that of something that all
    of them use: it is suspected only.
    """
    allowed = share_steps(numbers)
    p_values = adjust_p_values([1.0 if each.effect.p_value is None else each.effect.p_value for each in allowed])
    decisions = []
    for number, tested, p_value in zip(numbers, allowed, p_values, strict=True):
        verdict, companions = decide(tested.effect, p_value, margin), None
        if verdict is SpeedVerdict.SLOWER and tested.spread.source is not Source.TURNS and not tested.is_deliberate:
            companions = find_companions(number, numbers, margin)
        verdict = SpeedVerdict.SUSPECTED if companions else verdict
        decisions.append(Decision(verdict=verdict, tested=tested, companions=companions))
    return decisions


def decide(effect: Effect, p_value: float, margin: float) -> SpeedVerdict:
    """Return what an effect amounts to, given its p-value corrected for all that is judged with it."""
    low, high = 1 / (1 + margin), 1 + margin
    if p_value < ALPHA and abs(beyond_steps(math.log(effect.ratio), effect.steps)) > math.log1p(margin):
        return SpeedVerdict.FASTER if effect.ratio > 1 else SpeedVerdict.SLOWER
    return SpeedVerdict.SAME if low <= effect.low and effect.high <= high else SpeedVerdict.CANNOT_TELL


def share_steps(numbers: Sequence[Number]) -> list[Tested]:
    """Return what each number is held against; one that has shown no steps gets those that others usually make.

    Results alone do, and if together they came back twice or more. Whether the base was made at the slower or at the
    faster speed is not known then.
    """
    results = [each for each in numbers if each.is_result and each.tested.spread.source is not Source.TURNS]
    seen = {each.cell: each.tested for each in results if each.tested.effect.steps}
    if sum(tested.spread.returns for tested in seen.values()) < LEAST_RETURNS:
        return [each.tested for each in numbers]
    usual = float(np.median([tested.effect.steps.apart for tested in seen.values() if tested.effect.steps]))
    steps = MachineSteps(slowest=-usual, fastest=usual)
    return [_with_steps(each.tested, steps) if each in results else each.tested for each in numbers]


def _with_steps(tested: Tested, steps: MachineSteps) -> Tested:
    if tested.effect.steps:
        return tested
    return replace(tested, effect=with_steps(tested.effect, steps), foreseen=with_steps(tested.foreseen, steps))


def find_companions(number: Number, numbers: Sequence[Number], margin: float) -> Companions | None:
    """Return the other cells if at least half of them changed too; None if not, or if they are too few to show it."""
    ratios = {each.cell: each.tested.effect.ratio for each in reversed(numbers) if each.cell != number.cell}
    if len(ratios) < LEAST_WITNESSES:
        return None
    changed = sum(abs(math.log(ratio)) > math.log1p(margin) for ratio in ratios.values())
    if 2 * changed < len(ratios):
        return None
    return Companions(changed=changed, count=len(ratios), ratio=float(np.median(list(ratios.values()))))
