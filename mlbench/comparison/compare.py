"""Compares two sets of runs cell by cell: faster, slower, less accurate, or inconclusive."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from mlbench.comparison.comparability import (
    Difference,
    across_with_what_follows,
    check_facts,
    demand_comparable,
    demand_one_condition,
    differences,
    further_differences,
    key_of,
    knowing,
)
from mlbench.comparison.effect import Effect, detectable_loss
from mlbench.comparison.measures import why_not_counted
from mlbench.comparison.scores import ACCURACY_MARGIN, Score, are_targets_met, judge_scores
from mlbench.comparison.speeds import Sides, Speed, measure_speeds
from mlbench.comparison.spread import ENOUGH_SESSIONS, Source, Spread
from mlbench.comparison.tested import Tested
from mlbench.comparison.verdicts import ALPHA, MARGIN, Companions, Decision, Number, SpeedVerdict, judge_together
from mlbench.errors import IncomparableRunsError
from mlbench.records.beside import count_neighboured
from mlbench.records.machine.other_work import count_beside
from mlbench.records.run_record import RunRecord

LEAST_SENSITIVE = 0.5
"""Smallest loss that a speed must be able to show to count as judged."""

RESULTS = ("throughput", "latency")
"""Names of measures that are a run's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One number of a cell on both sides."""

    measure: str
    unit: str
    base: tuple[float, ...]
    """A value per repeat."""
    new: tuple[float, ...]
    effect: Effect | None
    verdict: SpeedVerdict
    reason: str
    """Reason why it is inconclusive or only suspected; empty otherwise."""
    spread: Spread | None = None
    """Noise of the test; None if there was no test."""
    detectable: float | None = None
    """The smallest loss, as a share, that would have been called slower, or suspected, in four of five such
    comparisons."""

    @property
    def is_tested(self) -> bool:
        """Whether it has a verdict, or would have one if half of the speed had been lost."""
        is_sensitive = self.detectable is not None and self.detectable <= LEAST_SENSITIVE
        return is_sensitive or self.verdict is not SpeedVerdict.CANNOT_TELL

    @property
    def is_by_history(self) -> bool:
        """Whether it is slower than on other days, or suspected to be; interleaved runs could confirm it."""
        is_loss = self.verdict in (SpeedVerdict.SLOWER, SpeedVerdict.SUSPECTED)
        return is_loss and self.spread is not None and self.spread.source is not Source.TURNS

    @property
    def is_open(self) -> bool:
        """Whether interleaved runs could settle it: it is slower than on other days, or these cannot tell."""
        is_untold = self.verdict is SpeedVerdict.CANNOT_TELL and self.effect is not None
        return self.is_by_history or (is_untold and (self.spread is None or self.spread.source is not Source.TURNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A number that was measured again, interleaved."""

    cell: str
    """The name of its runs."""
    measure: str
    runs: int
    """Number of runs of each side."""
    before: SpeedVerdict
    after: SpeedVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Runs that are repeats of each other, from both sides."""

    name: str
    """The name of the new side's runs."""
    base_name: str
    """The name of the base's runs; it differs where they are compared across a part of the name."""
    key: tuple[str, ...]
    """The facts its runs share (`comparability.key_of`); two cells may have the same name."""
    speeds: tuple[Judged, ...]
    scores: tuple[Score, ...]
    misses_target: bool
    """Whether a required target that the base met is now missed."""
    set_aside: tuple[str, ...]
    """Runs that failed, are INVALID, or lie far from the others of their session, with the reason; they are left out of
    the numbers."""
    differences: tuple[Difference, ...]
    """Facts that differ and were compared across, then facts that may differ."""
    beside: tuple[str, ...] = ()
    """Notes on sides whose runs were made under other load, or at the same time as runs on other lanes."""
    lost: bool = False
    """Whether the base has valid runs and the new side has none."""
    is_without_base: bool = False
    """Whether the base has no valid run."""
    failed_runs: int = 0
    """How many of the new side's runs failed or are INVALID."""
    new_runs: int = 0

    @property
    def is_less_accurate(self) -> bool:
        """Whether a target is newly missed, or a score is worse by more than the margin."""
        return self.misses_target or any(score.is_worse for score in self.scores)

    @property
    def is_worse(self) -> bool:
        """Whether this is a regression."""
        return self.lost or self.is_less_accurate or any(each.verdict is SpeedVerdict.SLOWER for each in self.speeds)

    @property
    def judged_count(self) -> int:
        """How many numbers and scores have a verdict."""
        speeds = sum(each.verdict not in (SpeedVerdict.SUSPECTED, SpeedVerdict.CANNOT_TELL) for each in self.speeds)
        return speeds + sum(not score.reason for score in self.scores) + self.lost

    @property
    def suspected(self) -> tuple[str, ...]:
        """Results that may be slower, with the reason for the doubt."""
        return tuple(f"{each.measure}: {each.reason}" for each in self.speeds if each.verdict is SpeedVerdict.SUSPECTED)

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Results without a verdict, with the reason."""
        found = [f"{each.measure}: {each.reason}" for each in self.speeds if each.verdict is SpeedVerdict.CANNOT_TELL]
        found += [f"{score.name}: {score.reason}" for score in self.scores if score.reason]
        if self.is_without_base:
            found.append("valid runs: the base has none")
        elif not self.lost and not self.speeds:
            found.append("speed: no run has a result")
        if self.failed_runs and not self.lost:
            found.append(f"valid runs: {self.failed_runs} of {self.new_runs} failed or are INVALID")
        return tuple(found)

    @property
    def is_tested(self) -> bool:
        """Whether a loss could have been detected in it."""
        return (
            self.lost or any(each.is_tested for each in self.speeds) or any(not score.reason for score in self.scores)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All cells of two sets of runs."""

    cells: tuple[Cell, ...]
    missing: tuple[str, ...]
    """Cells that only the base has."""
    added: tuple[str, ...]
    """Cells that only the new side has."""
    margin: float
    accuracy_margin: float = ACCURACY_MARGIN
    confirmed: tuple[Confirmation, ...] = ()
    """Numbers that were measured again, interleaved because they were slower, suspected or had no verdict."""

    @property
    def is_worse(self) -> bool:
        """Whether anything got slower or less accurate, or is missing."""
        return bool(self.missing) or any(cell.is_worse for cell in self.cells)

    @property
    def judged_count(self) -> int:
        """How many numbers and scores have a verdict; a cell that is missing counts as one."""
        return len(self.missing) + sum(cell.judged_count for cell in self.cells)

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Results without a verdict, with the reason."""
        return tuple(f"{cell.name}, {each}" for cell in self.cells for each in cell.not_judged)

    @property
    def suspected(self) -> tuple[str, ...]:
        """Results that may be slower, with the reason for the doubt."""
        return tuple(f"{cell.name}, {each}" for cell in self.cells for each in cell.suspected)

    @property
    def is_blind(self) -> bool:
        """Whether nothing at all could be judged."""
        return not self.missing and not any(cell.is_tested for cell in self.cells)

    @property
    def is_blind_to_speed(self) -> bool:
        """Whether there are speeds on both sides, and none of them could be judged."""
        speeds = [each for cell in self.cells for each in cell.speeds]
        return bool(speeds) and not any(each.is_tested for each in speeds)


def compare(  # noqa: PLR0913 - two sides, what may differ, and and the noise sources
    base: Sequence[RunRecord],
    new: Sequence[RunRecord],
    *,
    across: Collection[str] = (),
    margin: float = MARGIN,
    accuracy_margin: float = ACCURACY_MARGIN,
    history: Sequence[RunRecord] = (),
    again: Sequence[RunRecord] = (),
) -> Comparison:
    """Compare two sets of runs.

    Args:
        base: the runs to compare with.
        new: the runs to judge.
        across: facts that may differ, although they must match otherwise (see `comparability.FACTS`).
        margin: relative changes below this count as the same.
        accuracy_margin: the same for scores.
        history: other runs, of any kinds; those of the same kind on the same machine show how much sessions differ.
        again: runs of the base's product, repeated interleaved with the new ones; speeds are compared with these.

    Raises:
        IncomparableRunsError: the sides differ in facts that must match, or one side mixes them.
        UsageError: ``across`` names an unknown fact.
    """
    check_facts(across)
    ours, theirs, anew = (_group_by_cell(side, across) for side in (base, new, again))
    unmatched, others = [key for key in ours if key not in theirs], [key for key in theirs if key not in ours]
    if unmatched and others:
        _refuse(ours, theirs, unmatched, others, across)
    shared = [key for key in ours if key in theirs]
    for key in shared:
        for side, records in (("the base", ours[key]), ("the base made again", anew.get(key, []))):
            demand_one_condition(records, side)
            if knowing(records) and knowing(theirs[key]):
                demand_comparable(knowing(records)[0], knowing(theirs[key])[0], across)
        demand_one_condition(theirs[key], "the new side")
    sides = (Sides(base=ours[key], new=theirs[key], again=anew.get(key, []), history=history) for key in shared)
    cells = [(_cell(each, across, accuracy_margin), _speeds(each, margin)) for each in sides]
    return Comparison(
        cells=tuple(_with_verdicts(cells, margin)),
        missing=tuple(cell_name(ours[key][0]) for key in unmatched),
        added=tuple(cell_name(theirs[key][0]) for key in others),
        margin=margin,
        accuracy_margin=accuracy_margin,
    )


def cell_name(record: RunRecord) -> str:
    """Return ``resnet50 pytorch Offline fp32``."""
    return f"{record.model} {record.backend} {record.scenario} {record.precision}"


def _group_by_cell(records: Sequence[RunRecord], across: Collection[str]) -> dict[tuple[str, ...], list[RunRecord]]:
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        groups.setdefault(key_of(record, across), []).append(record)
    return groups


def _refuse(
    ours: dict[tuple[str, ...], list[RunRecord]],
    theirs: dict[tuple[str, ...], list[RunRecord]],
    unmatched: Sequence[tuple[str, ...]],
    others: Sequence[tuple[str, ...]],
    across: Collection[str],
) -> None:
    """Raise for the two most similar of the unmatched cells."""
    pairs = [(ours[one][0], theirs[other][0]) for one in unmatched for other in others]
    base, new = min(pairs, key=lambda pair: len(differences(pair[0], pair[1], across)))
    if base.workload != new.workload:
        raise IncomparableRunsError(
            f"the base has {cell_name(base)}, the new side {cell_name(new)}.", hint="Name runs of the same workloads."
        )
    demand_comparable(base, new, across)


def _cell(sides: Sides, across: Collection[str], accuracy_margin: float) -> Cell:
    base, new = sides.base, sides.new
    aside = [f"{record.run_id}: {reason}" for record in (*base, *new) if (reason := why_not_counted(record))]
    has_base, has_new = (any(not why_not_counted(record) for record in side) for side in (base, new))
    one, other = ((knowing(side) or side)[0] for side in (base, new))
    is_known = bool(knowing(base) and knowing(new))
    forced = [
        each for each in differences(one, other, across) if each.fact in across_with_what_follows(across) and is_known
    ]
    return Cell(
        name=cell_name(other),
        base_name=cell_name(one),
        key=key_of(other, across),
        speeds=(),
        scores=tuple(judge_scores(base, new, accuracy_margin)),
        misses_target=are_targets_met(base) and not are_targets_met(new),
        set_aside=tuple(aside),
        differences=(*forced, *further_differences(one, other)) if is_known else (),
        beside=tuple(_describe_beside(sides)),
        lost=has_base and not has_new,
        is_without_base=not has_base,
        failed_runs=sum(bool(why_not_counted(record)) for record in new),
        new_runs=len(new),
    )


def _describe_beside(sides: Sides) -> Iterator[str]:
    for side, records in (("in the base", sides.again or sides.base), ("on the new side", sides.new)):
        if found := count_beside([record.other_work for record in records]):
            yield f"{side} {found}"
        if found := count_neighboured([record.beside for record in records]):
            yield f"{side} {found}"


def _speeds(sides: Sides, margin: float) -> list[Speed]:
    has_both = all(any(not why_not_counted(record) for record in side) for side in (sides.base, sides.new))
    return measure_speeds(sides, margin) if has_both else []


def _with_verdicts(cells: Sequence[tuple[Cell, Sequence[Speed]]], margin: float) -> Sequence[Cell]:
    """Judge all numbers together."""
    numbers = {
        id(speed): Number(cell=cell.key, tested=speed.tested, is_result=speed.name in RESULTS)
        for cell, speeds in cells
        for speed in speeds
        if speed.tested
    }
    decisions = dict(zip(numbers, judge_together(list(numbers.values()), margin), strict=True))
    count = len(decisions)
    return [
        replace(
            cell,
            speeds=tuple(_judge_speed(speed, decisions.get(id(speed)), count, margin) for speed in speeds),
            set_aside=(*cell.set_aside, *(line for speed in speeds for line in _describe_odd(speed))),
        )
        for cell, speeds in cells
    ]


def _describe_odd(speed: Speed) -> Iterator[str]:
    in_pairs = speed.tested is not None and speed.tested.spread.source is Source.TURNS
    for each in speed.odd:
        yield f"{each}: its {speed.name} is far from the other {'pairs' if in_pairs else 'runs of its session'}"


def _judge_speed(speed: Speed, decision: Decision | None, tests: int, margin: float) -> Judged:
    """Return a number with its verdict; without a decision it was not tested."""
    verdict, effect, spread, detectable, reason = SpeedVerdict.CANNOT_TELL, speed.effect, None, None, speed.reason
    if decision:
        verdict, effect, spread = decision.verdict, decision.tested.effect, decision.tested.spread
        is_change = verdict in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER, SpeedVerdict.SUSPECTED)
        detectable = detectable_loss(effect if is_change else decision.tested.foreseen, tests, margin, ALPHA)
        if is_change:
            reason = _why_suspected(decision.companions, margin) if decision.companions else ""
        elif reason:
            verdict = SpeedVerdict.CANNOT_TELL
        elif verdict is SpeedVerdict.CANNOT_TELL:
            reason = _why_unsure(decision.tested, detectable, margin)
    return Judged(
        measure=speed.name,
        unit=speed.unit,
        base=speed.base,
        new=speed.new,
        effect=effect,
        verdict=verdict,
        reason=reason,
        spread=spread,
        detectable=detectable,
    )


def _why_suspected(companions: Companions, margin: float) -> str:
    return (
        f"slower, but {companions.changed} of {companions.count} other cells changed by more than {margin:.0%} too "
        f"(median x {companions.ratio:.3f}): the machine or something shared by all cells may be the cause; measure "
        "interleaved runs of both sides"
    )


def _reach(effect: Effect, margin: float) -> str:
    """Return a clause about the interval of an effect without a verdict, relative to the margin."""
    if effect.high < 1 - margin or effect.low > 1 + margin:
        return f"is all beyond the margin of {margin:.0%}, but it is of 95%, and a verdict takes {1 - ALPHA:.0%}"
    return f"extends beyond the margin of {margin:.0%}"


def _why_unsure(tested: Tested, detectable: float | None, margin: float) -> str:
    """Return the reason why a number has no verdict, and the fix."""
    spread, steps = tested.spread, tested.effect.steps
    would = f"; a slowdown of {detectable:.0%} would be detected" if detectable is not None else ""
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
