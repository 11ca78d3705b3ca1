"""The verdicts on all numbers of all cells, with the reasons where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mlbench.comparison.effect import Effect, detectable_loss
from mlbench.comparison.kinds import KINDS, SPEED, MeasureKind, in_direction, of_kind
from mlbench.comparison.outcome import Cell, Judged
from mlbench.comparison.speeds import Speed
from mlbench.comparison.spread import ENOUGH_SESSIONS, Source
from mlbench.comparison.tested import Tested
from mlbench.comparison.verdicts import (
    ALPHA,
    MARGIN,
    Companions,
    Decision,
    Number,
    SpeedVerdict,
    decide_exactly,
    judge_together,
)

MOST_DETECTABLE = 0.9
"""A loss of speed beyond which a test is said to detect none."""

RESULTS = ("throughput", "latency")
"""Names of measures that are a run's result."""


Family = tuple[Mapping[int, Decision], int]
"""The decisions on numbers of one kind, and how many were judged together."""


def with_verdicts(cells: Sequence[tuple[Cell, Sequence[Speed]]], margins: Mapping[str, float]) -> Sequence[Cell]:
    """Judge all numbers of a kind together."""
    families = {name: _judge_kind(kind, cells, margins) for name, kind in KINDS.items()}
    found = []
    for cell, speeds in cells:
        judged = [_judge_number(each, families[each.kind.name], margins[each.kind.name]) for each in speeds]
        found.append(
            replace(
                cell,
                speeds=tuple(each for each in judged if each.kind == SPEED.name),
                resources=tuple(each for each in judged if each.kind != SPEED.name),
                set_aside=(*cell.set_aside, *(line for each in speeds for line in _describe_odd(each))),
            )
        )
    return found


def _judge_kind(
    kind: MeasureKind, cells: Sequence[tuple[Cell, Sequence[Speed]]], margins: Mapping[str, float]
) -> Family:
    """Judge the numbers of a kind; those of another kind may witness a change of the machine."""
    numbers = _tested_of(kind.name, cells)
    witnesses = [*_tested_of(kind.witnesses, cells).values()], margins.get(kind.witnesses, MARGIN)
    decisions = judge_together(list(numbers.values()), margins[kind.name], witnesses)
    return dict(zip(numbers, decisions, strict=True)), len(numbers)


def _tested_of(kind: str, cells: Sequence[tuple[Cell, Sequence[Speed]]]) -> Mapping[int, Number]:
    return {
        id(speed): Number(cell=cell.key, tested=speed.tested, is_result=speed.name in RESULTS)
        for cell, speeds in cells
        for speed in speeds
        if speed.tested and speed.kind.name == kind
    }


def _describe_odd(speed: Speed) -> Iterator[str]:
    in_pairs = speed.tested is not None and speed.tested.spread.source is Source.TURNS
    for each in speed.odd:
        yield f"{each}: its {speed.name} is far from the other {'pairs' if in_pairs else 'runs of its session'}"


def _judge_number(speed: Speed, family: Family, margin: float) -> Judged:
    """Return a number with its verdict; without a decision it was not tested."""
    decisions, tests = family
    decision = decisions.get(id(speed))
    verdict, effect, spread, detectable, reason = SpeedVerdict.CANNOT_TELL, speed.effect, None, None, speed.reason
    amount = speed.kind.is_amount
    if decision:
        verdict, effect, spread = decision.verdict, decision.tested.effect, decision.tested.spread
        is_change = verdict in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER, SpeedVerdict.SUSPECTED)
        detectable = detectable_loss(effect if is_change else decision.tested.foreseen, tests, margin, ALPHA)
        if detectable is not None and detectable > MOST_DETECTABLE:
            detectable = None
        elif detectable and amount:
            detectable /= 1 - detectable
        if is_change:
            reason = _why_suspected(decision.companions, speed.kind, margin) if decision.companions else ""
        elif reason:
            verdict = SpeedVerdict.CANNOT_TELL
        elif verdict is SpeedVerdict.CANNOT_TELL:
            reason = _why_unsure(decision.tested, "growth" if amount else "slowdown", detectable, margin)
    elif speed.kind.is_exact and effect and not reason:
        verdict, detectable = decide_exactly(effect, margin), margin
    return Judged(
        measure=speed.name,
        unit=speed.unit,
        kind=speed.kind.name,
        base=speed.base,
        new=speed.new,
        effect=effect and in_direction(effect, speed.kind),
        verdict=of_kind(verdict, speed.kind),
        reason=reason,
        spread=spread,
        detectable=detectable,
    )


def _why_suspected(companions: Companions, kind: MeasureKind, margin: float) -> str:
    return (
        f"{'worse' if kind.is_amount else 'slower'}, but {companions.changed} of {companions.count} other cells "
        f"changed{_in_kind(kind)} by more than {margin:.0%} too "
        f"(median x {companions.ratio:.3f}): the machine or something shared by all cells may be the cause; measure "
        "interleaved runs of both sides"
    )


def _in_kind(kind: MeasureKind) -> str:
    return "" if kind.witnesses == kind.name else f" in {kind.witnesses}"


def _reach(effect: Effect, margin: float) -> str:
    """Return a clause about the interval of an effect without a verdict, relative to the margin."""
    if effect.high < 1 - margin or effect.low > 1 + margin:
        return f"is all beyond the margin of {margin:.0%}, but it is of 95%, and a verdict takes {1 - ALPHA:.0%}"
    return f"extends beyond the margin of {margin:.0%}"


def _why_unsure(tested: Tested, change: str, detectable: float | None, margin: float) -> str:
    """Return the reason why a number has no verdict, and the fix."""
    spread, steps = tested.spread, tested.effect.steps
    would = f"; {f'a {change} of {detectable:.0%}' if detectable is not None else f'no {change}'} would be detected"
    match spread.source:
        case Source.TURNS:
            return (
                f"the runs of a pair differ by {spread.between:.1%}, and the interval of {spread.count} pairs "
                f"{_reach(tested.effect, margin)}{would}; repeat more often"
            )
        case _ if steps:
            return (
                f"the machine alternates between speeds that are {-math.expm1(-steps.apart):.0%} apart{would}; "
                "interleave runs of both sides"
            )
        case Source.ASSUMED:
            return (
                f"{spread.count} of {ENOUGH_SESSIONS} sessions are known, so sessions are assumed to differ by "
                f"{spread.between:.0%}{would}; measure on more days, or interleave runs of both sides"
            )
        case Source.SESSIONS:
            return (
                f"sessions differ by {spread.between:.1%}, and the interval {_reach(tested.effect, margin)}"
                f"{would}; repeat more often, or interleave runs of both sides"
            )
