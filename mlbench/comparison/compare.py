"""Two sets of runs, cell by cell: which got faster, slower, or less accurate, and which cannot be told."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mlbench.comparison.comparability import (
    Difference,
    check_facts,
    demand_comparable,
    demand_one_condition,
    differences,
    further_differences,
    key_of,
)
from mlbench.comparison.effect import Effect, adjusted, effect_of, is_two_humped, percentile_interval
from mlbench.comparison.measures import Measure, latencies_of, measures_of, why_loads_differ, why_not_counted
from mlbench.errors import IncomparableRunsError
from mlbench.records.run_record import RunRecord

MARGIN = 0.05
"""Below it nothing is called a change, however sure: machines differ by that much from day to day."""

ALPHA = 0.05
"""How often a comparison of equals, all its numbers together, may be sure of a difference somewhere."""

_ADVISED_REPEATS = 5


class Verdict(StrEnum):
    """What a comparison says of one number."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One number of a cell on both sides."""

    measure: str
    unit: str
    base: tuple[float, ...]
    """A value per repeat."""
    new: tuple[float, ...]
    effect: Effect | None
    verdict: Verdict
    reason: str
    """Why it cannot be told; empty otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """An accuracy score on both sides: the worst of the repeats."""

    name: str
    base: float | None
    new: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Runs that are repeats of each other, on both sides."""

    name: str
    speeds: tuple[Judged, ...]
    scores: tuple[Score, ...]
    is_less_accurate: bool
    """A required target that the base met is missed."""
    set_aside: tuple[str, ...]
    """Runs that failed or are INVALID, with the reason; they are in no number."""
    differences: tuple[Difference, ...]
    """Facts that differ and were compared across, then facts that may differ."""
    lost: bool = False
    """The base had valid runs, and the new side has none."""

    @property
    def is_worse(self) -> bool:
        """Tell whether this is a regression."""
        return self.lost or self.is_less_accurate or any(each.verdict is Verdict.SLOWER for each in self.speeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All cells of two sets of runs."""

    cells: tuple[Cell, ...]
    missing: tuple[str, ...]
    """Cells that only the base has."""
    added: tuple[str, ...]
    """Cells that only the new side has."""
    margin: float

    @property
    def is_worse(self) -> bool:
        """Tell whether anything got slower or less accurate, or is missing."""
        return bool(self.missing) or any(cell.is_worse for cell in self.cells)


def compare(
    base: Sequence[RunRecord],
    new: Sequence[RunRecord],
    *,
    across: Collection[str] = (),
    margin: float = MARGIN,
) -> Comparison:
    """Compare two sets of runs.

    Args:
        base: the runs to compare with.
        new: the runs in question.
        across: facts that may differ though they must otherwise match (see `comparability.FACTS`).
        margin: a change below this share is none.

    Raises:
        IncomparableRunsError: the sides differ in facts that must match, or one side mixes them.
        UsageError: ``across`` names an unknown fact.
    """
    check_facts(across)
    ours, theirs = _grouped(base, across), _grouped(new, across)
    unmatched, others = [key for key in ours if key not in theirs], [key for key in theirs if key not in ours]
    if unmatched and others:
        _refuse(ours, theirs, unmatched, others, across)
    shared = [key for key in ours if key in theirs]
    for key in shared:
        demand_one_condition(ours[key], "the base")
        demand_one_condition(theirs[key], "the new side")
        demand_comparable(ours[key][0], theirs[key][0], across)
    cells = [_cell(ours[key], theirs[key], across) for key in shared]
    return Comparison(
        cells=tuple(_with_verdicts(cells, margin)),
        missing=tuple(cell_name(ours[key][0]) for key in unmatched),
        added=tuple(cell_name(theirs[key][0]) for key in others),
        margin=margin,
    )


def cell_name(record: RunRecord) -> str:
    """Return ``resnet50 pytorch Offline fp32``."""
    return f"{record.workload} {record.backend} {record.scenario} {record.precision}"


def _grouped(records: Sequence[RunRecord], across: Collection[str]) -> dict[tuple[str, ...], list[RunRecord]]:
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
    """Raise for the two most alike of the cells that have no partner."""
    pairs = [(ours[one][0], theirs[other][0]) for one in unmatched for other in others]
    base, new = min(pairs, key=lambda pair: len(differences(*pair)))
    if base.workload != new.workload:
        raise IncomparableRunsError(
            f"the base has {cell_name(base)}, the new side {cell_name(new)}.", hint="Name runs of the same workloads."
        )
    demand_comparable(base, new, across)


def _cell(base: Sequence[RunRecord], new: Sequence[RunRecord], across: Collection[str]) -> Cell:
    aside = [f"{record.run_id}: {reason}" for record in (*base, *new) if (reason := why_not_counted(record))]
    ours, theirs = ([record for record in side if not why_not_counted(record)] for side in (base, new))
    forced = [each for each in differences(base[0], new[0]) if each.fact in across]
    return Cell(
        name=cell_name(new[0]),
        speeds=tuple(_judged(ours, theirs)) if ours and theirs else (),
        scores=tuple(_scores(base, new)),
        is_less_accurate=_targets_met(base) and not _targets_met(new),
        set_aside=tuple(aside),
        differences=(*forced, *further_differences(base[0], new[0])),
        lost=bool(ours) and not theirs,
    )


def _judged(base: Sequence[RunRecord], new: Sequence[RunRecord]) -> Sequence[Judged]:
    ours, theirs = ([{each.name: each for each in measures_of(record)} for record in side] for side in (base, new))
    names = [name for name in ours[0] if all(name in values for values in (*ours, *theirs))]
    return [_judge(base, new, [values[name] for values in ours], [values[name] for values in theirs]) for name in names]


def _judge(
    base: Sequence[RunRecord],
    new: Sequence[RunRecord],
    ours: Sequence[Measure],
    theirs: Sequence[Measure],
) -> Judged:
    first = ours[0]
    values = [measure.value for measure in ours], [measure.value for measure in theirs]
    effect, reason = _effect(base, new, ours, theirs)
    return Judged(
        measure=first.name,
        unit=first.unit,
        base=tuple(values[0]),
        new=tuple(values[1]),
        effect=effect,
        verdict=Verdict.CANNOT_TELL,
        reason=reason,
    )


def _effect(
    base: Sequence[RunRecord], new: Sequence[RunRecord], ours: Sequence[Measure], theirs: Sequence[Measure]
) -> tuple[Effect | None, str]:
    """Return the effect, and why no verdict can rest on it."""
    if reason := why_loads_differ([*base, *new]):
        return None, reason
    one, other = [measure.value for measure in ours], [measure.value for measure in theirs]
    first = ours[0]
    if min(len(one), len(other)) > 1:
        effect = effect_of(one, other, higher_is_better=first.higher_is_better)
        humps = [side for side, values in (("base", one), ("new", other)) if is_two_humped(values)]
        return effect, f"the {humps[0]} runs fall into two heaps: something switched between them" if humps else ""
    if first.percentile is None:
        ratio = math.prod(other) ** (1 / len(other)) / math.prod(one) ** (1 / len(one))
        ratio = ratio if first.higher_is_better else 1 / ratio
        effect = Effect(ratio=ratio, low=0.0, high=math.inf, p_value=None)
        return effect, f"one run shows no spread; repeat each side, --repeat {_ADVISED_REPEATS}"
    return _effect_of_single_runs(base[0], new[0], first.percentile), ""


def _effect_of_single_runs(base: RunRecord, new: RunRecord, percentile: float) -> Effect:
    """Compare a percentile of two runs by their own latencies: the spread within a run, not between runs."""
    assert base.result and new.result
    one, other = (
        percentile_interval(latencies_of(record), percentile, record.result.counts["queries"])  # type: ignore[union-attr]
        for record in (base, new)
    )
    middle = latencies_of(base)[percentile] / latencies_of(new)[percentile]
    return Effect(ratio=middle, low=one[0] / other[1], high=one[1] / other[0], p_value=None)


def _with_verdicts(cells: Sequence[Cell], margin: float) -> Sequence[Cell]:
    """Judge all numbers together."""
    effects = [each.effect for cell in cells for each in cell.speeds if each.effect and not each.reason]
    tested = [effect for effect in effects if effect.p_value is not None]
    corrected = adjusted([effect.p_value for effect in tested if effect.p_value is not None])
    p_values = {id(effect): p_value for effect, p_value in zip(tested, corrected, strict=True)}
    return [
        replace(cell, speeds=tuple(_decided(each, p_values.get(id(each.effect)), margin) for each in cell.speeds))
        for cell in cells
    ]


def _decided(each: Judged, p_value: float | None, margin: float) -> Judged:
    if each.reason or not each.effect:
        return each
    effect, low, high = each.effect, 1 / (1 + margin), 1 + margin
    is_sure = p_value < ALPHA if p_value is not None else not effect.low <= 1 <= effect.high
    if is_sure and effect.ratio > high:
        return replace(each, verdict=Verdict.FASTER)
    if is_sure and effect.ratio < low:
        return replace(each, verdict=Verdict.SLOWER)
    if low <= effect.low and effect.high <= high:
        return replace(each, verdict=Verdict.SAME)
    return replace(each, reason=f"the interval reaches beyond the margin of {margin:.0%}; repeat more often")


def _scores(base: Sequence[RunRecord], new: Sequence[RunRecord]) -> Sequence[Score]:
    """Return the scores that targets are about."""
    names = dict.fromkeys(
        target.score for record in (*base, *new) if record.accuracy for target in record.accuracy.targets
    )
    return [Score(name=name, base=_worst(base, name), new=_worst(new, name)) for name in names]


def _worst(records: Sequence[RunRecord], name: str) -> float | None:
    values = [record.accuracy.scores.get(name) for record in records if record.accuracy]
    return min((value for value in values if value is not None), default=None)


def _targets_met(records: Sequence[RunRecord]) -> bool:
    return all(record.accuracy.is_met for record in records if record.accuracy)
