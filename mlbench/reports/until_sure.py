"""Lines about measuring until a verdict: what a time can show, before and after it was spent."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench.comparison.sequential import Outlook
from mlbench.comparison.sessions import LEAST_PAIRS
from mlbench.records.expected_cost import ExpectedTime
from mlbench.reports.preflight import spell_time
from mlbench.reports.units import plural, rough_time

EXAMPLE = 0.1
"""The slowdown whose turns are named."""

MORE_S = 3600.0
"""The further time whose use is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsAhead:
    """The turns of one cell to come."""

    name: str
    made: int
    """How many were made, and count."""
    turn: ExpectedTime
    """How long one of this cell takes."""
    round_s: float
    """A turn of each cell that has no verdict: what passes from one turn of this cell to its next."""
    outlook: Outlook | None
    """None: it is unknown how much a pair differs."""
    known_by: str = ""
    """The runs that show it: ``8 earlier runs``."""

    def turns_in(self, seconds: float) -> int:
        """Return how many turns fit into a time."""
        return int(seconds / self.round_s) if self.round_s > 0 else 0


def outlook_line(ahead: TurnsAhead, left_s: float) -> str:
    """Return what the time that is left can show of a cell."""
    turns, outlook = ahead.turns_in(left_s), ahead.outlook
    takes = f"a turn takes {spell_time(ahead.turn)}, so {rough_time(left_s)} are about {plural(turns, 'turn')}"
    if outlook is None:
        return (
            f"{ahead.name}: {takes}. No earlier runs show how much the runs of a pair differ; a line after "
            f"{LEAST_PAIRS} turns says what the time can show."
        )
    loss, same = _spell_cost(ahead, outlook.turns_to_see(EXAMPLE)), _spell_cost(ahead, outlook.turns_to_same())
    return (
        f"{ahead.name}: the runs of a pair differ by about {outlook.noise:.1%} ({ahead.known_by}); {takes}, "
        f"{_say_shown(outlook, ahead.made + turns)}. To see a slowdown of {EXAMPLE:.0%}: {loss}; to see that nothing "
        f"changed by {outlook.margin:.0%}: {same}."
    )


def unsettled_line(ahead: TurnsAhead) -> str:
    """Return what a further hour would show of a cell that has no verdict yet."""
    made, more = ahead.made, ahead.turns_in(MORE_S)
    told = f"{ahead.name}: no verdict after {plural(made, 'turn')}; one more hour is about {plural(more, 'turn')}"
    if ahead.outlook is None:
        return f"{told}, and a verdict takes {LEAST_PAIRS} at least."
    return f"{told}, {_say_shown(ahead.outlook, made + more)}."


def _say_shown(outlook: Outlook, turns: int) -> str:
    """Return what so many turns show, as a clause."""
    seen = outlook.change_seen(turns)
    if seen >= 1:
        return "too few for a verdict"
    same = f", or that nothing changed by {outlook.margin:.0%}" if outlook.shows_same(turns) else ""
    return f"which show a slowdown of {seen:.1%}{same}"


def _spell_cost(ahead: TurnsAhead, turns: int | None) -> str:
    if turns is None:
        return "more turns than one can make"
    left = max(turns - ahead.made, 1)
    return f"about {plural(left, 'turn')}{' more' if ahead.made else ''}, {rough_time(left * ahead.round_s)}"
