"""Which backend is faster, and how sure that is: sentences below the runs of several backends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlbench.comparison.backends import BackendComparison, judge_single_runs
from mlbench.comparison.compare import Cell, Judged
from mlbench.comparison.effect import Effect
from mlbench.comparison.kinds import KINDS, in_direction
from mlbench.comparison.spread import USUAL, Source
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.units import three_digits

MOST_SENTENCES = 4
"""For more kinds of runs two backends have one sentence."""

_UNSURE = (SpeedVerdict.CANNOT_TELL, SpeedVerdict.SUSPECTED)
_OTHER_LOAD = "; these runs were made under other load, which makes them differ by more"
_HINT = "The same command with --until-sure measures them interleaved until it is known."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """How one backend compares with another in one kind of runs."""

    first: str
    """The faster one by the ratio."""
    second: str
    place: str
    """The kind: ``resnet50 Offline``."""
    times: float
    """At least 1: how many times as fast the first is."""
    certainty: str
    """The interval of that, and its basis."""
    further: str
    """A clause on each further number."""
    verdict: SpeedVerdict
    is_single: bool
    """Whether each ran once, and nothing shows the noise."""
    is_sure: bool
    """Whether the first is faster by the verdict, or by single runs that differ more than sessions are assumed to."""

    @property
    def sentence(self) -> str:
        """Return it in words."""
        ends = f"({self.certainty}{self.further})."
        times = f"{three_digits(self.times)} times as fast as {self.second} in {self.place}"
        if self.is_single:
            chance = "" if self.is_sure else ", which may be chance"
            return f"{self.first} was {times}, one run each{chance} {ends}"
        if self.is_sure:
            return f"{self.first} is {times} {ends}"
        if self.verdict is SpeedVerdict.SAME:
            return f"{self.first} is as fast as {self.second} in {self.place} {ends}"
        return f"{self.first} may be {times}, or not the faster one {ends}"


def answer_lines(compared: Sequence[BackendComparison]) -> Iterator[str]:
    """Yield which backend is faster in each kind of runs, or in one sentence for many, and how to know more."""
    found: dict[tuple[str, str], list[tuple[Cell, Judged]]] = {}
    for each in compared:
        for name, comparison in each.others:
            numbers = [(cell, cell.speeds[0]) for cell in comparison.cells if cell.speeds and cell.speeds[0].effect]
            found.setdefault((each.base, name), []).extend(numbers)
    tests = sum(map(len, found.values()))
    has_model = len({cell.name.split()[0] for several in found.values() for cell, _ in several}) > 1
    answers = {
        pair: [_find_answer(pair, cell, each, tests, has_model=has_model) for cell, each in several]
        for pair, several in found.items()
    }
    for several in filter(None, answers.values()):
        if len(several) <= MOST_SENTENCES:
            yield from (each.sentence for each in several)
        else:
            yield _summarize(several)
    if any(each.verdict in _UNSURE for several in answers.values() for each in several):
        yield _HINT


def _find_answer(pair: tuple[str, str], cell: Cell, each: Judged, tests: int, *, has_model: bool) -> _Answer:
    assert each.effect
    (base, name), ratio = pair, each.effect.ratio
    is_single = each.spread is None and len(each.base) == len(each.new) == 1
    first, second = (name, base) if ratio >= 1 else (base, name)
    model, _, scenario, *_ = cell.name.split()
    sure = each.verdict in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER)
    return _Answer(
        first=first,
        second=second,
        place=f"{model} {scenario}" if has_model else scenario,
        times=max(ratio, 1 / ratio),
        certainty=_describe_certainty(each, ratio < 1, tests) + (_OTHER_LOAD if is_single and cell.beside else ""),
        further="".join(
            _describe_further(other, ratio < 1, tests)
            for other in (*cell.speeds[1:], *cell.resources)
            if KINDS[other.kind].shows_speed
        ),
        verdict=each.verdict,
        is_single=is_single,
        is_sure=sure or (is_single and judge_single_runs(ratio, tests).holds_up_to > USUAL.spread),
    )


def _spell_interval(each: Judged, effect: Effect, is_inverted: bool, tests: int) -> str:
    """Return the ends of a ratio; of single runs as if sessions differed as is assumed."""
    effect = effect if each.spread else judge_single_runs(effect.ratio, tests, KINDS[each.kind].assumed).assumed
    low, high = (1 / effect.high, 1 / effect.low) if is_inverted else (effect.low, effect.high)
    return f"{three_digits(low)} to {three_digits(high)}" if math.isfinite(high) and low > 0 else "unknown"


def _describe_certainty(each: Judged, is_inverted: bool, tests: int) -> str:
    assert each.effect
    interval = _spell_interval(each, each.effect, is_inverted, tests)
    if each.spread is None:
        holds = judge_single_runs(each.effect.ratio, tests).holds_up_to
        told = f"{interval} if sessions differ by {USUAL.spread:.0%}, which is assumed, as single runs show no noise"
        return f"{told}; the order holds unless they differ by more than {holds:.0%}" if holds > USUAL.spread else told
    match each.spread.source:
        case Source.TURNS:
            return f"{interval}, by {each.spread.count} pairs of interleaved runs"
        case Source.SESSIONS:
            return f"{interval}; sessions here differ by {each.spread.between:.1%}"
        case Source.ASSUMED:
            return f"{interval}; sessions are assumed to differ by {each.spread.between:.0%}"


def _describe_further(each: Judged, is_inverted: bool, tests: int) -> str:
    """Return a clause on a further number: how many times as fast, or as little processor time."""
    if not each.effect:
        return ""
    effect = in_direction(each.effect, KINDS[each.kind])
    ratio = 1 / effect.ratio if is_inverted else effect.ratio
    return f"; by {each.measure} {three_digits(ratio)} times, {_spell_interval(each, effect, is_inverted, tests)}"


def _summarize(several: Sequence[_Answer]) -> str:
    """Return one sentence on many kinds of runs."""
    sure = [each for each in several if each.is_sure]
    firsts = dict.fromkeys(each.first for each in sure)
    parts = [_describe_faster(name, [each.times for each in sure if each.first == name]) for name in firsts]
    same = sum(each.verdict is SpeedVerdict.SAME for each in several)
    unknown = len(several) - len(sure) - same
    parts += [f"as fast as each other in {same}"] if same else []
    parts += [f"not known in {unknown}"] if unknown else []
    names = " and ".join(sorted((several[0].first, several[0].second)))
    return f"{names}, {len(several)} kinds of runs: {'; '.join(parts)}."


def _describe_faster(name: str, times: Sequence[float]) -> str:
    ends = " to ".join(dict.fromkeys(three_digits(each) for each in (min(times), max(times))))
    return f"{name} is {ends} times as fast in {len(times)}"
