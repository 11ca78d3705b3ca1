"""Speeds that a machine alternates between by itself, as its earlier sessions show them.

A machine with two speeds that each last for many nights is steady for many days, and then suddenly slower by as much as
a bad commit would cause. Two levels in a history count as such speeds if they are clearly apart and the machine
returned to one of them: a level that was left and never returned to may be a change of the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlbench.comparison.spread import ENOUGH_SESSIONS, Session

SHORTEST_STATE = 3
"""The least number of sessions of a state: fewer may just be bad days."""

CLEAR_GAP = 3.3, 20.0, 4.0
"""Two states are apart by this many of their own standard deviations: 3.3, and 20 over the number of sessions, and at
least 4. Normal noise cut in two where that shows most reaches so much in 2 of 100 histories of ten to twenty sessions,
and 1 of 100 longer ones (simulated); the halves of even noise are 3.5 apart."""

_LEAST_SPREAD = 0.001
"""No machine is more repeatable than this; it also avoids a division by zero for identical sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The speeds of a machine."""

    sessions: tuple[tuple[Session, ...], ...]
    """Sessions of each speed, slowest first."""
    returns: int = 0
    """Number of returns of the machine to an earlier speed."""

    @property
    def levels(self) -> list[float]:
        """The mean of each, a logarithm."""
        return [float(np.mean([np.mean(session) for session in state])) for state in self.sessions]


def find_states(sessions: Sequence[Session], margin: float) -> States:
    """Return the sessions of each state; all of them together where no states are seen.

    Args:
        sessions: signed logarithms of their runs, oldest first.
        margin: states closer to each other than this share are merged.
    """
    if len(sessions) < ENOUGH_SESSIONS:
        return States(sessions=(tuple(sessions),))
    means = np.array([np.mean(session) for session in sessions])
    ends = _split(np.sort(means), math.log1p(margin))
    states = np.searchsorted(ends, means)  # (sessions,)
    returns = int(np.count_nonzero(np.diff(states))) - len(ends)
    if returns < 1:
        return States(sessions=(tuple(sessions),))
    by_state = (
        tuple(session for session, its in zip(sessions, states, strict=True) if its == state)
        for state in range(len(ends) + 1)
    )
    return States(sessions=tuple(by_state), returns=returns)


def _split(ordered: np.ndarray, least: float) -> list[float]:
    """Return the boundaries between states: the largest value of each but the last."""
    count = len(ordered)
    if count < 2 * SHORTEST_STATE:
        return []
    low = np.arange(SHORTEST_STATE, count - SHORTEST_STATE + 1)  # (places,), how many are below each boundary
    centred = ordered - ordered.mean()
    sums, squares = np.cumsum(centred)[low - 1], float(centred @ centred)  # the whole sums to 0
    gaps = -sums / low - sums / (count - low)
    within = np.maximum(squares - sums**2 / low - sums**2 / (count - low), 0.0) / (count - 2)
    clearness = np.where(gaps > least, gaps / np.maximum(np.sqrt(within), _LEAST_SPREAD), 0.0)
    constant, over_count, least_gap = CLEAR_GAP
    if clearness.max() <= max(constant + over_count / count, least_gap):
        return []
    place = int(low[clearness.argmax()])
    return [*_split(ordered[:place], least), float(ordered[place - 1]), *_split(ordered[place:], least)]
