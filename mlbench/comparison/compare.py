"""Compares two sets of runs cell by cell: faster, slower, less accurate, or inconclusive."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mlbench.comparison.comparability import (
    across_with_what_follows,
    check_facts,
    demand_comparable,
    demand_one_condition,
    differences,
    further_differences,
    key_of,
    knowing,
)
from mlbench.comparison.judging import with_verdicts
from mlbench.comparison.kinds import SPEED, margins_of
from mlbench.comparison.measures import why_not_counted
from mlbench.comparison.outcome import Cell, Comparison, Confirmation, Guard, Judged
from mlbench.comparison.scores import ACCURACY_MARGIN, are_targets_met, judge_scores
from mlbench.comparison.speeds import Sides, Speed, measure_numbers, shared_setup
from mlbench.comparison.verdicts import MARGIN
from mlbench.errors import IncomparableRunsError
from mlbench.records.beside import count_neighboured
from mlbench.records.facts import conditions_of
from mlbench.records.machine.other_work import count_beside
from mlbench.records.machine.telemetry import describe_clocks
from mlbench.records.run_record import RunRecord

__all__ = ["Cell", "Comparison", "Confirmation", "Guard", "Judged", "cell_name", "compare"]


def compare(  # noqa: PLR0913 - two sides, what may differ, and and the noise sources
    base: Sequence[RunRecord],
    new: Sequence[RunRecord],
    *,
    across: Collection[str] = (),
    margin: float | Mapping[str, float] = MARGIN,
    accuracy_margin: float = ACCURACY_MARGIN,
    history: Sequence[RunRecord] = (),
    again: Sequence[RunRecord] = (),
) -> Comparison:
    """Compare two sets of runs.

    Args:
        base: the runs to compare with.
        new: the runs to judge.
        across: facts that may differ, although they must match otherwise (see `comparability.FACTS`).
        margin: relative changes below this count as the same: of speeds, or by the names of `kinds.KINDS`.
        accuracy_margin: the same for scores.
        history: other runs, of any kinds; those of the same kind on the same machine show how much sessions differ.
        again: runs of the base's product, repeated interleaved with the new ones; speeds are compared with these.

    Raises:
        IncomparableRunsError: the sides differ in facts that must match, or one side mixes them.
        UsageError: ``across`` names an unknown fact, or a margin is no share or of no known kind.
    """
    check_facts(across)
    margins = margins_of(margin)
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
    cells = [(_cell(each, across, accuracy_margin), _numbers(each, margins)) for each in sides]
    return Comparison(
        cells=tuple(with_verdicts(cells, margins)),
        missing=tuple(cell_name(ours[key][0]) for key in unmatched),
        added=tuple(cell_name(theirs[key][0]) for key in others),
        margin=margins[SPEED.name],
        margins=margins,
        accuracy_margin=accuracy_margin,
    )


def cell_name(record: RunRecord) -> str:
    """Return ``resnet50 pytorch Offline fp32``."""
    return f"{record.model} {record.backend} {record.scenario} {record.precision_and_transform}"


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
        beside=(*_describe_beside(sides), *_describe_setups(one, other, sides)),
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
        throttled = (words for record in records if record.telemetry for words in record.telemetry.throttled_in_words)
        yield from (f"{side} {words}" for words in dict.fromkeys(throttled))
    base, new = ([record.telemetry for record in side] for side in (sides.again or sides.base, sides.new))
    yield from describe_clocks(base, new)


def _describe_setups(one: RunRecord, other: RunRecord, sides: Sides) -> Iterator[str]:
    """Yield why resources are not compared; sides that differ on purpose may differ in their setup."""
    _, reason = shared_setup(sides)
    if reason and conditions_of(one) == conditions_of(other):
        yield reason


def _numbers(sides: Sides, margins: Mapping[str, float]) -> list[Speed]:
    has_both = all(any(not why_not_counted(record) for record in side) for side in (sides.base, sides.new))
    return measure_numbers(sides, margins) if has_both else []
