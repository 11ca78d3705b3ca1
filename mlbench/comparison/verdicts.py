"""The verdicts on all numbers of a comparison, judged together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from mlbench.comparison.effect import Effect, MachineSteps, adjust_p_values, beyond_steps, with_steps
from mlbench.comparison.spread import Source
from mlbench.comparison.tested import Tested

MARGIN = 0.05
"""Changes below it count as the same, however significant: machines vary by that much from day to day."""

ALPHA = 0.01
"""Chance of a false alarm anywhere in a comparison of equals: a suite that runs every night would otherwise raise one
every few weeks."""

LEAST_WITNESSES = 3
"""With fewer other cells it cannot be seen whether the whole machine changed."""

LEAST_RETURNS = 2
"""Cells must have returned to an earlier speed this often before others are assumed to do so too: a single return may
be a regression that was fixed."""


class SpeedVerdict(StrEnum):
    """The verdict on one number."""

    FASTER = "faster"
    SLOWER = "slower"
    BETTER = "better"
    """Less of something that is no speed: memory, time to start."""
    WORSE = "worse"
    SUSPECTED = "suspected"
    """Slower or worse, but other cells changed too: the machine may be the cause."""
    SAME = "same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number to be judged."""

    cell: tuple[str, ...]
    tested: Tested
    is_result: bool = True
    """Whether it is a throughput or a latency, not a tail or an energy: a machine's speed affects all of these."""


Witnesses = tuple[Sequence[Number], float]
"""Numbers of cells, and the margin below which these count as the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """The other cells, where as many of them changed on the same night as did not."""

    changed: int
    """How many changed by more than the margin, either way."""
    count: int
    ratio: float
    """The median ratio of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A number's verdict, and its basis."""

    verdict: SpeedVerdict
    tested: Tested
    """The effect, corrected for the machine's variation as other numbers show it."""
    companions: Companions | None = None
    """Reason why it is only suspected."""


def judge_together(numbers: Sequence[Number], margin: float, witnesses: Witnesses | None = None) -> list[Decision]:
    """Return the verdict of each number of a comparison.

    Args:
        numbers: of one kind.
        margin: smaller changes count as the same.
        witnesses: the numbers that show whether the machine changed; None: these.

    The chance of any false alarm among all of them is one in a hundred (Holm). Speeds that a machine was seen to
    alternate between count for all results: a cell that has not shown its second speed yet has one too. If half of the
    other cells changed in the same session, the machine or something shared may be the cause of a slowdown: it is only
    suspected.
    """
    allowed = share_steps(numbers)
    p_values = adjust_p_values([1.0 if each.effect.p_value is None else each.effect.p_value for each in allowed])
    decisions = []
    for number, tested, p_value in zip(numbers, allowed, p_values, strict=True):
        verdict, companions = decide(tested.effect, p_value, margin), None
        if verdict is SpeedVerdict.SLOWER and tested.spread.source is not Source.TURNS and not tested.is_deliberate:
            companions = find_companions(number, *(witnesses or (numbers, margin)))
        verdict = SpeedVerdict.SUSPECTED if companions else verdict
        decisions.append(Decision(verdict=verdict, tested=tested, companions=companions))
    return decisions


def decide(effect: Effect, p_value: float, margin: float) -> SpeedVerdict:
    """Return the verdict on an effect, given its corrected p-value."""
    low, high = 1 / (1 + margin), 1 + margin
    if p_value < ALPHA and abs(beyond_steps(math.log(effect.ratio), effect.steps)) > math.log1p(margin):
        return SpeedVerdict.FASTER if effect.ratio > 1 else SpeedVerdict.SLOWER
    return SpeedVerdict.SAME if low <= effect.low and effect.high <= high else SpeedVerdict.CANNOT_TELL


def share_steps(numbers: Sequence[Number]) -> list[Tested]:
    """Return the noise of each number; one without alternating speeds gets those that others usually have.

    Only results get them, and only if together they returned twice or more. Whether the base was measured at the slower
    or the faster speed is then unknown.
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


def compare_exactly(base: Sequence[float], new: Sequence[float], margin: float) -> tuple[Effect, str]:
    """Return the ratio of numbers that equal runs repeat exactly, above 1 where the new side has less, or why not.

    Args:
        base: a positive number per run.
        new: likewise.
        margin: repeats of one side that differ by more are not exact, and have no verdict.
    """
    ends = (min(base) / max(new), max(base) / min(new))
    ratio = math.exp((math.fsum(map(math.log, base)) / len(base)) - (math.fsum(map(math.log, new)) / len(new)))
    apart = max(max(side) / min(side) for side in (base, new)) - 1
    reason = f"repeats differ by {apart:.1%}, so it is no exact number" if apart > margin else ""
    return Effect(ratio=ratio, low=ends[0], high=ends[1], p_value=None), reason


def decide_exactly(effect: Effect, margin: float) -> SpeedVerdict:
    """Return the verdict on numbers without noise."""
    if 1 / (1 + margin) <= effect.ratio <= 1 + margin:
        return SpeedVerdict.SAME
    return SpeedVerdict.FASTER if effect.ratio > 1 else SpeedVerdict.SLOWER
