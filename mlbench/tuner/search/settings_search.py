"""Searches settings for the best result: one after another by short trials, then the best ones in full, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

_CLOSE = 0.95
"""Settings may be better than the first ones where their short trial is not worse than this part of it: noise."""

_PASSES = 2
"""How often all knobs are gone through, as long as that changes anything."""

FINALISTS, REPEATS = 3, 2
"""How many settings are measured in full at most, the first ones among them, and how often each."""

_LOST = 0.95
"""A value whose short trial is worse than this part of the best is not tried again with other values of other knobs."""

_AS_GOOD = 0.98
"""Other settings than the best are measured in full where their short trial is not worse than this part of its."""

_NEAR = 0.9
"""Settings are measured in full again where they are better than this part of the best ones so far."""


class KnobValues(Mapping[str, Any]):
    """A value for each knob, by the key of its setting."""

    def __init__(self, by_key: Mapping[str, object]) -> None:
        """Take the values."""
        self._by_key = dict(by_key)

    def __getitem__(self, key: str) -> Any:
        """Return the value of a setting."""
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self._by_key)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_key)

    def __hash__(self) -> int:
        """Return the same for equal values in whatever order."""
        return hash(frozenset(self._by_key.items()))

    def changed(self, key: str, value: Any) -> KnobValues:
        """Return these values with another one for a setting."""
        return KnobValues({**self._by_key, key: value})


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that may be varied."""

    key: str
    values: tuple[Any, ...]
    """Numbers ascending, as far as they are numbers."""

    @property
    def is_ordered(self) -> bool:
        """Return whether the values are numbers."""
        return all(isinstance(each, int | float) and not isinstance(each, bool) for each in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTrial:
    """Settings to measure."""

    settings: KnobValues
    is_full: bool
    """Whether the run is one of those that decide, or a short one."""
    repeat: int = 1


Measure = Callable[[SettingsTrial], float | None]
"""Return how good a trial's result is, the higher the better; None if it has none that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """Settings that were measured in full."""

    settings: KnobValues
    scores: tuple[float, ...]
    """One for each full run, as `Measure` returns them; empty if one does not count."""

    @property
    def score(self) -> float:
        """Return the mean of the repeats; 0 if one does not count."""
        return mean(self.scores) if self.scores else 0.0


def longest_search(knobs: Sequence[Knob]) -> int:
    """Return how many short trials a search makes at most, where one pass settles it."""
    return 1 + sum(len(knob.values) - 1 for knob in knobs)


def search_settings(knobs: Sequence[Knob], start: KnobValues, measure: Measure) -> list[Finalist]:
    """Search for the best settings, and return those that were measured in full, the best first.

    The first settings are among them, so the best are never worse than these by more than noise.

    Args:
        knobs: what may be varied; each has a value in ``start``.
        start: where the search begins.
        measure: makes a trial. It is not asked again for the same.
    """
    tried = _Tried(knobs, measure)
    tried.climb(start)
    close = [each for each in tried.scores if each != start and tried.score(each) > _CLOSE * tried.score(start)]
    best_first = sorted(close, key=tried.score, reverse=True)
    as_good = [each for each in best_first if tried.score(each) > _AS_GOOD * tried.score(best_first[0])]
    finalists = (start, *as_good[: FINALISTS - 1])
    scores: dict[KnobValues, list[float | None]] = {settings: [] for settings in finalists}
    asked = finalists
    while asked:  # interleaved, so that a slow minute is not all of one's
        for settings in asked:
            trial = SettingsTrial(settings=settings, is_full=True, repeat=len(scores[settings]) + 1)
            scores[settings].append(measure(trial))
        found = [_finalist(settings, measured) for settings, measured in scores.items()]
        best = max(each.score for each in found)
        asked = tuple(each.settings for each in found if each.score > _NEAR * best and len(each.scores) < REPEATS)
    return sorted(found, key=lambda each: each.score, reverse=True)


def _finalist(settings: KnobValues, measured: Sequence[float | None]) -> Finalist:
    scores = tuple(each for each in measured if each)
    return Finalist(settings=settings, scores=scores if len(scores) == len(measured) else ())


@dataclass(slots=True)
class _Tried:
    """The short trials of a search."""

    knobs: Sequence[Knob]
    measure: Measure
    scores: dict[KnobValues, float | None] = field(default_factory=dict)
    lost: set[tuple[str, Any]] = field(default_factory=set)
    """Knobs' values that were clearly worse than others."""

    def score(self, settings: KnobValues) -> float:
        if settings not in self.scores:
            self.scores[settings] = self.measure(SettingsTrial(settings=settings, is_full=False))
        return self.scores[settings] or 0.0

    def climb(self, start: KnobValues) -> None:
        """Go from one settings to better ones, a knob at a time, until nothing is better."""
        best = start
        self.score(best)
        for _ in range(_PASSES):
            before = best
            for knob in self.knobs:
                best = self._turn(knob, best)
            if best == before:
                return

    def _turn(self, knob: Knob, begun: KnobValues) -> KnobValues:
        """Return the best settings along one knob."""
        best = begun
        for direction in _directions(knob, begun[knob.key]):
            for value in direction:
                if self._gains(begun.changed(knob.key, value), best, knob.key):
                    best = begun.changed(knob.key, value)
                elif knob.is_ordered:
                    break
        return best

    def _gains(self, other: KnobValues, best: KnobValues, key: str) -> bool:
        """Return whether settings are better than the best so far, from which they differ in a knob."""
        choice = (key, other[key])
        if choice in self.lost and other not in self.scores:
            return False
        if self.score(other) < _LOST * self.score(best):
            self.lost.add(choice)
        return self.score(other) > self.score(best)  # by however little: gains add up, and full runs decide


def _directions(knob: Knob, value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the values to try in turn: numbers upwards, then downwards, each as long as it gains; words all."""
    place = knob.values.index(value)
    if knob.is_ordered:
        yield knob.values[place + 1 :]
        yield tuple(reversed(knob.values[:place]))
    else:
        yield (*knob.values[:place], *knob.values[place + 1 :])
