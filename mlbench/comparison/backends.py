"""Runs of several backends, made together: each backend compared with the first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mlbench.comparison.comparability import across_with_what_follows, differences, key_of
from mlbench.comparison.compare import Comparison, compare
from mlbench.comparison.effect import Effect, effect_of_sessions
from mlbench.comparison.measures import why_not_counted
from mlbench.comparison.spread import USUAL, Assumed, Source, Spread
from mlbench.comparison.verdicts import ALPHA, MARGIN
from mlbench.errors import IncomparableRunsError
from mlbench.records.run_record import RunRecord

_ACROSS = ("backend", "precision")
"""Facts to compare across if each backend ran in one precision; otherwise each precision is compared separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendComparison:
    """Runs of one kind on several backends."""

    base: str
    """The backend that ran first."""
    others: tuple[tuple[str, Comparison], ...]
    """Each other backend by name, compared with the first."""
    runs: int
    """The least number of runs that a backend has."""
    across: tuple[str, ...] = ()
    """The facts that differ on purpose."""
    newest: Mapping[str, RunRecord] = field(default_factory=dict)
    """The newest run of each backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRuns:
    """What one run of each side says, though it shows no noise."""

    assumed: Effect
    """The effect, if sessions differ by as much as is assumed where nothing is known."""
    holds_up_to: float
    """How much sessions may differ, as a share, before the order of the two is uncertain at 1 %."""


def judge_single_runs(ratio: float, tests: int, assumed: Assumed = USUAL) -> SingleRuns:
    """Return what a ratio of two single runs says.

    Args:
        ratio: of their speeds, or the like.
        tests: how many such ratios are judged together.
        assumed: how much sessions differ.
    """
    from scipy.special import stdtrit

    freedom = assumed.freedom
    alone = Spread(source=Source.ASSUMED, between=assumed.spread, within=0.0, repeats=1, freedom=freedom, count=1)
    sure = float(stdtrit(freedom, 1 - ALPHA / (2 * tests)))
    return SingleRuns(
        assumed=effect_of_sessions([[0.0]], [[math.log(ratio)]], alone),
        holds_up_to=abs(math.log(ratio)) / (math.sqrt(2) * sure),
    )


def compare_backends(records: Sequence[RunRecord], history: Sequence[RunRecord] = ()) -> Iterator[BackendComparison]:
    """Yield a comparison for each kind of runs that several backends made; runs that do not count take no part.

    Args:
        records: of any kinds, in the order in which they were made.
        history: other runs, as `compare` takes them.
    """
    counting = [run for run in records if run.is_good]
    for across, group in _groups(counting):
        sides = _by_backend(group)
        if len(sides) > 1:
            base, *names = sides
            others = [(name, found) for name in names if (found := _compare(sides[base], sides[name], across, history))]
            if others:
                yield BackendComparison(
                    base=base,
                    others=tuple(others),
                    runs=min(map(len, sides.values())),
                    across=tuple(across),
                    newest={name: max(runs, key=_created) for name, runs in sides.items()},
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterBackend:
    """An earlier run on another backend that was faster than a run on the backend that was chosen."""

    run: RunRecord
    other: RunRecord
    ratio: float
    """Ratio of the speeds."""


def faster_backends(records: Sequence[RunRecord], earlier: Sequence[RunRecord]) -> Iterator[FasterBackend]:
    """Yield the fastest backend of earlier runs for each run of these that it beats by more than the margin.

    Results are compared, so no runs that were sent a rate, of valid runs in the same precision and under the same
    conditions. Of another backend the newest run counts whose answers were tested and are accurate: one that computes
    nothing is the fastest.
    It is a hint and no verdict: they are single runs of other times.

    Args:
        records: of any kinds.
        earlier: others, of these kinds but for the backend among them.
    """
    for group in _grouped([*earlier, *records], _ACROSS[:1]):
        counting = [
            run for run in group if run.is_good and not why_not_counted(run) and run.result and run.result.value
        ]
        in_time = sorted(counting, key=_created)
        newest = {run.backend: run for run in in_time}
        tested = {run.backend: run for run in in_time if run.verdict and run.verdict.is_accurate}
        for run in records:
            if newest.get(run.backend) is run and run.scenario_facts.compared_by == "result":
                others = [other for name, other in tested.items() if name != run.backend and _are_alike(run, other)]
                fastest = max(others, key=_speed, default=run)
                ratio = _speed(fastest) / _speed(run)
                if ratio > 1 + MARGIN:
                    yield FasterBackend(run=run, other=fastest, ratio=ratio)


def _are_alike(run: RunRecord, other: RunRecord) -> bool:
    """Return whether two runs differ in their backends alone, and what follows from these."""
    may_differ = across_with_what_follows(_ACROSS[:1])
    return all(each.fact in may_differ for each in differences(run, other, _ACROSS[:1]))


def _created(run: RunRecord) -> datetime:
    return run.created


def _speed(run: RunRecord) -> float:
    assert run.result and run.result.value is not None
    return run.result.value if run.result.higher_is_better else 1 / run.result.value


def _compare(
    base: Sequence[RunRecord], new: Sequence[RunRecord], across: Sequence[str], history: Sequence[RunRecord]
) -> Comparison | None:
    """Return a comparison; None where the runs differ in something else, which `mlbench compare` names."""
    try:
        return compare(base, new, across=across, history=history)
    except IncomparableRunsError:
        return None


def _groups(records: Sequence[RunRecord]) -> Iterator[tuple[Sequence[str], Sequence[RunRecord]]]:
    """Yield runs that differ in backend and precision alone, and across which of these they can be compared."""
    for group in _grouped(records, _ACROSS):
        if all(len({run.precision for run in runs}) == 1 for runs in _by_backend(group).values()):
            yield _ACROSS, group
        else:
            yield from ((_ACROSS[:1], part) for part in _grouped(group, _ACROSS[:1]))


def _grouped(records: Sequence[RunRecord], across: Sequence[str]) -> Sequence[Sequence[RunRecord]]:
    groups: dict[tuple[str, ...], list[RunRecord]] = {}
    for run in records:
        groups.setdefault(key_of(run, across), []).append(run)
    return list(groups.values())


def _by_backend(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    sides: dict[str, list[RunRecord]] = {}
    for run in records:
        sides.setdefault(run.backend, []).append(run)
    return sides
