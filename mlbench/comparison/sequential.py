"""Verdicts on interleaved runs that may be asked for after every turn.

A test at 1 % that is repeated after each of fifty turns is wrong in far more than one case of a hundred. The evidence
here is a martingale where nothing differs, so the chance that it *ever* exceeds 100 is at most one in a hundred,
whenever one looks and for whatever reason one stops (Ville, 1939).

Source: Lai, On confidence sequences, 1976; Wang and Ramdas, Anytime-valid t-tests and confidence sequences for Gaussian
means with unknown variance, 2023; the same number is the Bayes factor of Gönen, Johnson, Lu and Westfall, The Bayesian
two-sample t test, 2005. `benchmarks/until_sure.py` compares it with Pocock's boundary and shows its false alarms.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

from mlbench.comparison.compare import Cell, Comparison, Judged, compare
from mlbench.comparison.effect import CONFIDENCE, POWER, Effect, adjust_p_values, is_bimodal
from mlbench.comparison.kinds import KINDS, PROCESSOR_TIME, MeasureKind, in_direction, of_kind
from mlbench.comparison.measures import is_crowded, speeds_of, why_not_counted
from mlbench.comparison.sessions import LEAST_PAIRS, split_sessions
from mlbench.comparison.spread import Source, measure_spread, without_odd_runs
from mlbench.comparison.verdicts import ALPHA, SpeedVerdict, decide
from mlbench.records.run_record import RunRecord

PRECISION = 0.1
"""Precision of the differences to look for, in units of a pair's standard deviation: normal, of a variance of ten.
From 0.03 to 1 it hardly matters (`benchmarks/until_sure.py`)."""

UNSTEADY = 0.1
"""Standard deviation of a pair's difference, as a share, beyond which wall time needs hundreds of turns to show 5 %."""

MOST_TURNS = 10_000
"""More turns are never planned."""

_UNTOLD = (SpeedVerdict.CANNOT_TELL, SpeedVerdict.SUSPECTED)


def evidence(t: float, count: int) -> float:
    """Return the logarithm of the evidence for a difference: Student's t of so many pairs, at least two."""
    share = PRECISION / (count + PRECISION)
    if math.isinf(t):
        return (1 - count) / 2 * math.log(share)
    u = t**2 / (count - 1)
    return 0.5 * math.log(share) + count / 2 * (math.log1p(u) - math.log1p(share * u))


def least_t(count: int, chance: float) -> float:
    """Return the t at which the evidence of so many pairs is 1 / chance; infinite where none is enough."""
    share = PRECISION / (count + PRECISION)
    needed = math.exp(2 / count * (-math.log(chance) - 0.5 * math.log(share)))
    if needed * share >= 1:
        return math.inf
    return math.sqrt((count - 1) * (needed - 1) / (1 - needed * share))


def at_any_time(effect: Effect) -> Effect:
    """Return the effect of pairs with a p-value and an interval that hold whenever one looks.

    The p-value may be looked at after each pair, and the intervals of all looks hold the true ratio together in 95 of
    100 cases.
    """
    if effect.error is None or effect.freedom is None:
        return effect
    count, difference, error = round(effect.freedom) + 1, math.log(effect.ratio), effect.error
    t = difference / error if error else math.copysign(math.inf, difference) if difference else 0.0
    reach = least_t(count, 1 - CONFIDENCE) * error if error else 0.0
    return replace(
        effect,
        low=math.exp(difference - reach),
        high=math.exp(difference + reach),
        p_value=min(1.0, math.exp(-evidence(t, count))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairNoise:
    """How much the two runs of a pair differ by themselves."""

    share: float
    """The standard deviation of a pair's difference, as a share."""
    runs: int
    """The number of runs that show it."""


def measure_pair_noise(kinds: Sequence[Sequence[RunRecord]]) -> PairNoise | None:
    """Return the noise of a pair as repeats within a session show it; None where there are none.

    Args:
        kinds: the stored runs of one kind each. Runs that do not count take no part.
    """
    counted = [[run for run in kind if run.status == "completed" and not why_not_counted(run)] for kind in kinds]
    sessions = [session for kind in counted for session in split_sessions(kind) if len(session) > 1]
    logarithms = [[math.log(speed.value) for run in each for speed in islice(speeds_of(run), 1)] for each in sessions]
    spread = measure_spread([without_odd_runs(logarithms)])
    return PairNoise(share=math.sqrt(2) * spread.within, runs=sum(map(len, logarithms))) if spread else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What turns can show, given how much the two runs of a pair differ by themselves."""

    noise: float
    """The standard deviation of a pair's difference, as a share."""
    tests: int
    """How many numbers are judged together."""
    margin: float
    """Changes below it count as the same."""

    @classmethod
    def of(cls, judged: Judged, tests: int, margin: float) -> Self:
        """Return what more turns of a number that was measured interleaved can show."""
        return cls(noise=judged.spread.between if judged.spread else 0.0, tests=tests, margin=margin)

    def change_seen(self, turns: int) -> float:
        """Return the smallest loss, as a share, that so many turns show in four of five cases; 1 if none.

        It is significant in nine of ten, by the noncentral t distribution, and beyond the margin in nine of ten.
        """
        if turns < LEAST_PAIRS:
            return 1.0
        from scipy.special import nctdtrinc, ndtri

        error, needed = self.noise / math.sqrt(turns), least_t(turns, ALPHA / self.tests)
        sure = float(nctdtrinc(turns - 1, 1 - POWER, needed)) if math.isfinite(needed) else math.inf
        beyond_margin = math.log1p(self.margin) + float(ndtri(POWER)) * error
        return -math.expm1(-max(sure * error if error else 0.0, beyond_margin))

    def shows_same(self, turns: int) -> bool:
        """Return whether so many turns show in four of five cases that there is no change."""
        from scipy.special import stdtrit

        reach = least_t(turns, 1 - CONFIDENCE) + float(stdtrit(turns - 1, POWER))
        return self.noise == 0 or reach * self.noise / math.sqrt(turns) <= math.log1p(self.margin)

    def turns_to_see(self, change: float) -> int | None:
        """Return after how many turns a loss of that share is seen; None where that is never or far off."""
        return _find_first(lambda turns: self.change_seen(turns) <= change)

    def turns_to_same(self) -> int | None:
        """Return after how many turns it is seen that nothing changed; None where that is never or far off."""
        return _find_first(self.shows_same)


def _find_first(is_enough: Callable[[int], bool]) -> int | None:
    """Return the least number of turns that is enough; more are always enough too."""
    most = LEAST_PAIRS
    while not is_enough(most):
        if most >= MOST_TURNS:
            return None
        most *= 2
    return bisect_left(range(most), True, lo=LEAST_PAIRS, key=is_enough)


def compare_pairs_so_far(
    pairs: Sequence[tuple[RunRecord, RunRecord]], *, across: Collection[str], margins: Mapping[str, float]
) -> Comparison:
    """Compare interleaved runs, the base's first, after each turn or at the end; margins are by kind of number.

    Raises:
        IncomparableRunsError: the sides differ in a fact that is not listed.
    """
    base, new = ([pair[side] for pair in pairs] for side in (0, 1))
    return judge_so_far(compare(base, new, across=across, margin=margins, again=base))


def judge_so_far(comparison: Comparison) -> Comparison:
    """Return a comparison of interleaved runs with verdicts that hold whenever one looks, of a kind together (Holm)."""
    numbers = [each for cell in comparison.cells for each in cell.numbers]
    judged = dict[int, Judged]()
    for kind in KINDS.values():
        family = [each for each in numbers if each.kind == kind.name]
        found = _judge_family(family, kind, comparison.margins[kind.name])
        judged |= zip(map(id, family), found, strict=True)
    cells = (
        replace(
            cell,
            speeds=tuple(judged[id(each)] for each in cell.speeds),
            resources=tuple(judged[id(each)] for each in cell.resources),
        )
        for cell in comparison.cells
    )
    return replace(comparison, cells=tuple(cells))


def _judge_family(numbers: Sequence[Judged], kind: MeasureKind, margin: float) -> Iterator[Judged]:
    effects = [at_any_time(each.effect) if _is_in_turns(each) and each.effect else None for each in numbers]
    p_values = adjust_p_values([1.0 if each is None or each.p_value is None else each.p_value for each in effects])
    for each, effect, p_value in zip(numbers, effects, p_values, strict=True):
        yield _judge(each, effect, p_value, kind, Outlook.of(each, len(numbers), margin)) if effect else each


def _is_in_turns(each: Judged) -> bool:
    return each.spread is not None and each.spread.source is Source.TURNS


def _judge(each: Judged, effect: Effect, p_value: float, kind: MeasureKind, outlook: Outlook) -> Judged:
    verdict = of_kind(decide(in_direction(effect, kind), p_value, outlook.margin), kind)
    turns, reason = each.spread.count if each.spread else 0, ""
    seen = outlook.change_seen(turns)
    if kind.is_amount:
        seen = seen / (1 - seen) if seen < 1 else math.inf
    if verdict is SpeedVerdict.SAME and (is_bimodal(each.base) or is_bimodal(each.new)):
        verdict, reason = SpeedVerdict.CANNOT_TELL, "the runs of a side are bimodal: something switched between states"
    elif verdict is SpeedVerdict.CANNOT_TELL:
        would = f"; a {'growth' if kind.is_amount else 'slowdown'} of {seen:.0%} would have been detected"
        reason = (
            f"the runs of a pair differ by {outlook.noise:.1%}, and the interval of {turns} turns extends beyond the "
            f"margin of {outlook.margin:.0%}{would if math.isfinite(seen) else ''}; measure for longer"
        )
    return replace(each, verdict=verdict, reason=reason, effect=effect, detectable=seen if seen < math.inf else None)


def decisive_numbers(
    cell: Cell, pairs: Sequence[tuple[RunRecord, RunRecord]], asked: Collection[str] = ()
) -> list[Judged]:
    """Return the numbers of a cell that have to have a verdict: its speeds, and those that are asked for.

    Where wall time is the neighbours', processor time decides, if turns measured it and no accelerator computes: on a
    crowded machine, and where the speeds of a pair differ much by themselves, as on a virtual one whose host is busy.
    Others have what verdict they then have.
    """
    runs = [run for pair in pairs for run in pair]
    names = {speed.name for run in runs for speed in speeds_of(run)}
    is_unsteady = any(each.spread.between > UNSTEADY for each in cell.speeds if _is_in_turns(each) and each.spread)
    counts_all = all(run.processor_time and run.processor_time.covers == "all" for run in runs)
    if counts_all and (is_unsteady or is_crowded(runs)):
        witnesses = {each.measure for each in cell.resources if each.kind == PROCESSOR_TIME.name and _is_in_turns(each)}
        names = witnesses or names
    return [each for each in cell.numbers if each.measure in names.union(asked)]


def is_settled(numbers: Sequence[Judged]) -> bool:
    """Return whether turns gave each of these numbers a verdict."""
    return bool(numbers) and all(_is_in_turns(each) and each.verdict not in _UNTOLD for each in numbers)
