"""Measures cells interleaved until each has a verdict, or the time for it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

from mlbench.comparison.measures import why_not_counted
from mlbench.comparison.sequential import PairNoise
from mlbench.comparison.sessions import LEAST_PAIRS
from mlbench.errors import MlbenchError
from mlbench.records.expected_cost import Basis, ExpectedTime
from mlbench.records.run_record import RunRecord
from mlbench.running.turns import Maker, make_pair, stored_pairs

MOST_LOST = LEAST_PAIRS
"""So many turns in a row without a pair that counts end a cell: its next ones would fail too."""


@dataclass(frozen=True, slots=True)
class CellId:
    """Which cell of which side."""

    side: int
    """The number of the new side, from 0."""
    key: tuple[str, ...]
    """The facts its runs share (`comparability.key_of`)."""


@dataclass(slots=True, kw_only=True)
class CellInTurns:
    """A run of the base and one of a new side made alternately; pairs stored by an earlier try come first."""

    id: CellId
    name: str
    base: Maker
    new: Maker
    across: tuple[str, ...]
    """Facts in which the two differ on purpose."""
    turn: ExpectedTime
    """How long a turn takes: as expected, then as the mean of those made."""
    noise: PairNoise | None = None
    """By how much the runs of a pair differ, as earlier runs show it; None: they do not."""
    asked: frozenset[str] = frozenset()
    """Numbers that are to have a verdict beside its speeds."""
    by_number: dict[int, tuple[RunRecord, RunRecord]] = field(init=False)
    """Pairs by their number, from 1."""
    made: int = 0
    """Number of pairs that were made now."""
    lost: int = 0
    """Number of the last turns in a row without a pair that counts."""
    error: MlbenchError | None = None
    """Why no further turn can be made."""
    _took_s: float = 0.0

    def __post_init__(self) -> None:
        self.by_number = stored_pairs(self.base.request, self.new.request)

    @property
    def pairs(self) -> list[tuple[RunRecord, RunRecord]]:
        """Return all pairs."""
        return list(self.by_number.values())

    @property
    def why_lost(self) -> str:
        """Return why its turns are given up; empty where they are not."""
        if self.error:
            return str(self.error)
        if self.lost < MOST_LOST:
            return ""
        newest = self.pairs[-1]
        reasons = dict.fromkeys(f"{run.run_id}: {why}" for run in newest if (why := why_not_counted(run)))
        return f"{self.lost} turns in a row gave no pair that counts ({'; '.join(reasons)})"

    def make_turn(self) -> None:
        """Make a pair; an error of its runs ends the cell."""
        began_s = time.monotonic()
        number = next(each for each in count(1) if each not in self.by_number)
        try:
            pair = make_pair(self.base, self.new, number)
        except MlbenchError as error:
            self.error = error
            return
        self.by_number[number] = pair
        self.made += 1
        self.lost = self.lost + 1 if any(map(why_not_counted, pair)) else 0
        self._took_s += time.monotonic() - began_s
        self.turn = ExpectedTime(seconds=self._took_s / self.made, basis=Basis.SAME)


def measure_until_sure(
    cells: Sequence[CellInTurns],
    find_open: Callable[[], Collection[CellId]],
    ends_s: float,
) -> bool:
    """Make a turn of each cell without a verdict, again and again, and return whether all ended before the time.

    Args:
        cells: what is measured.
        find_open: returns those that have no verdict by the pairs they hold.
        ends_s: of `time.monotonic`: no turn begins that would end later.
    """
    while True:
        open_now = find_open()
        left = [cell for cell in cells if cell.id in open_now and not cell.why_lost]
        if not left:
            return True
        has_made = False
        for cell in left:
            if time.monotonic() + cell.turn.seconds <= ends_s:
                cell.make_turn()
                has_made = True
        if not has_made:
            return False
