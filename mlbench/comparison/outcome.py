"""The outcome of a comparison: its cells, and the verdict on each of their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlbench.comparison.comparability import Difference
from mlbench.comparison.effect import Effect
from mlbench.comparison.kinds import KINDS, SPEED, margins_of
from mlbench.comparison.scores import ACCURACY_MARGIN, Score
from mlbench.comparison.spread import Source, Spread
from mlbench.comparison.verdicts import MARGIN, SpeedVerdict

LEAST_SENSITIVE = 0.5
"""Smallest loss that a speed must be able to show to count as judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One number of a cell on both sides."""

    measure: str
    unit: str
    kind: str = SPEED.name
    """The name of its `kinds.MeasureKind`."""
    base: tuple[float, ...]
    """A value per repeat."""
    new: tuple[float, ...]
    effect: Effect | None
    """A ratio of 2 is twice as fast for a speed, twice as much for an amount such as memory."""
    verdict: SpeedVerdict
    reason: str
    """Reason why it is inconclusive or only suspected; empty otherwise."""
    spread: Spread | None = None
    """Noise of the test; None if there was no test."""
    detectable: float | None = None
    """The smallest loss of speed, or growth of anything else, as a share, that would have been called slower or worse,
    or suspected, in four of five such comparisons."""

    @property
    def is_tested(self) -> bool:
        """Whether it has a verdict, or would have one if half of the speed had been lost."""
        is_sensitive = self.detectable is not None and self.detectable <= LEAST_SENSITIVE
        return is_sensitive or self.verdict is not SpeedVerdict.CANNOT_TELL

    @property
    def is_worse(self) -> bool:
        """Whether it is a regression: slower, or more of what should be little."""
        return self.verdict in (SpeedVerdict.SLOWER, SpeedVerdict.WORSE)

    @property
    def is_by_history(self) -> bool:
        """Whether it is slower than on other days, or suspected to be; interleaved runs could confirm it."""
        is_loss = self.is_worse or self.verdict is SpeedVerdict.SUSPECTED
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
    resources: tuple[Judged, ...] = ()
    """Numbers of other kinds: processor time, memory, start-up, work."""
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
    def numbers(self) -> tuple[Judged, ...]:
        """Numbers of all kinds."""
        return (*self.speeds, *self.resources)

    @property
    def unsettled(self) -> tuple[Judged, ...]:
        """Numbers that interleaved runs are made for: open speeds, and losses in anything else."""
        return tuple(each for each in self.numbers if each.is_by_history or (each.is_open and each in self.speeds))

    @property
    def is_less_accurate(self) -> bool:
        """Whether a target is newly missed, or a score is worse by more than the margin."""
        return self.misses_target or any(score.is_worse for score in self.scores)

    @property
    def is_worse(self) -> bool:
        """Whether this is a regression."""
        return self.lost or self.is_less_accurate or any(each.is_worse for each in self.numbers)

    @property
    def judged_count(self) -> int:
        """How many numbers and scores have a verdict."""
        speeds = sum(each.verdict not in (SpeedVerdict.SUSPECTED, SpeedVerdict.CANNOT_TELL) for each in self.speeds)
        return speeds + sum(not score.reason for score in self.scores) + self.lost

    @property
    def suspected(self) -> tuple[str, ...]:
        """Results that may be worse, with the reason for the doubt."""
        return tuple(
            f"{each.measure}: {each.reason}" for each in self.numbers if each.verdict is SpeedVerdict.SUSPECTED
        )

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
        speeds = (each for each in self.numbers if KINDS[each.kind].shows_speed)
        return self.lost or any(each.is_tested for each in speeds) or any(not score.reason for score in self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All cells of two sets of runs."""

    cells: tuple[Cell, ...]
    missing: tuple[str, ...]
    """Cells that only the base has."""
    added: tuple[str, ...]
    """Cells that only the new side has."""
    margin: float
    """Margin of speeds."""
    margins: Mapping[str, float] = field(default_factory=lambda: margins_of(MARGIN))
    """Margin of each kind of numbers."""
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

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What a loss must be to be detected by this comparison, for each kind of numbers that it has."""
        numbers = [each for cell in self.cells for each in cell.numbers]
        by_kind = {name: [each for each in numbers if each.kind == name] for name in KINDS}
        return tuple(_guard(name, some) for name, some in by_kind.items() if some)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What a comparison would detect in one kind of numbers."""

    kind: str
    detectable: float | None
    """The loss or growth that would be detected in each of its numbers that can be judged; None: none can."""
    judged: int
    """How many numbers can be judged."""
    count: int
    """Number of all."""


def _guard(kind: str, numbers: Sequence[Judged]) -> Guard:
    known = [each.detectable for each in numbers if each.detectable is not None]
    return Guard(kind=kind, detectable=max(known, default=None), judged=len(known), count=len(numbers))
