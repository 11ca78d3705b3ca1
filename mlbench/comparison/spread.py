"""The spread of a number between sessions without a change.

Repeats of one session resemble each other more than those of another day: the processor is as warm, the neighbours are
as busy, memory lies where it lies. Their spread does not show the spread between sessions. So the unit here is the
session, and its value the mean of the logarithms of its runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np

ENOUGH_SESSIONS = 10
"""Number of sessions that show the spread; with fewer, an assumption replaces them."""

CORRELATION = 0.8
"""Correlation of neighbouring repeats, assumed where only the spread within a session is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """The spread from session to session where too few are known."""

    spread: float
    """As a share."""
    freedom: float
    """Weight of the assumption: 8 as if it came from nine sessions."""
    correlation: float = CORRELATION
    """Correlation of the repeats of a session, so that their spread shows that of sessions where it is larger."""


USUAL = Assumed(spread=0.05, freedom=8)
"""The speed of shared machines differs by that much."""

_FAR = 4.0, 40.0
"""A run is odd so many standard deviations from the middle of its session: 4, where one normal run in 16,000 lies, and
40 over the degrees of freedom, since the few values of ten pairs show their standard deviation badly. With that, tests
of normal pairs are wrong as often as without (`tests/comparison/test_odd_runs.py`)."""

_MEDIAN_OF_PAIRS = 0.954
"""The median of what two normal values differ by, in their standard deviations: 0.6745 times the root of 2."""

_LEAST_SCALE = 0.001
"""No runs repeat more closely than this; it keeps those that are equal to the last digit from making others odd."""

_LEAST_FREEDOM = 4.0
"""Lower bound for a series of correlated sessions: a few more sessions never make it worthless."""

Session = Sequence[float]
"""The logarithms of a session's runs."""


class Source(StrEnum):
    """Source of a spread."""

    SESSIONS = "sessions"
    """Measured: sessions of the same run on other days."""
    TURNS = "turns"
    """Measured: pairs of runs of both sides, one right after the other."""
    ASSUMED = "assumed"
    """Too few sessions are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The spread of session means."""

    source: Source
    between: float
    """The standard deviation of a session's mean, or of a pair's difference where runs are interleaved. As a share:
    0.01 is one percent."""
    within: float
    """The standard deviation of the repeats of a session."""
    repeats: float
    """Number of runs in the measured sessions."""
    freedom: float
    """Degrees of freedom of ``between``."""
    count: int
    """Number of known sessions or pairs."""
    slowest: float = 0.0
    fastest: float = 0.0
    """Logarithms of the speeds that the machine goes back and forth between by itself; equal where none were seen.
    ``between`` is that of sessions at the same speed."""
    returns: int = 0
    """Number of returns to an earlier speed."""

    def variance_of(self, repeats: float) -> float:
        """Return the variance of the mean of a session of so many runs.

        A session of fewer runs than those it was measured on is less certain; one of more is not trusted to be surer.
        """
        return self.between**2 + self.within**2 * max(0.0, 1 / repeats - 1 / self.repeats)


def without_odd_runs(sessions: Sequence[Session]) -> list[Session]:
    """Return sessions without their runs that lie far from most of their session; one of them would stand for all.

    How far is measured by what two runs of one session usually differ by, of all sessions together: the median, which
    up to a quarter of odd runs hardly moves. A session in which fewer than half of the runs lie together keeps all.
    """
    apart = [abs(one - other) for session in sessions for one, other in combinations(session, 2)]
    if not apart:
        return list(sessions)
    usual, over_freedom = _FAR
    far = usual + over_freedom / sum(len(session) - 1 for session in sessions)
    reach = far * max(float(np.median(apart)) / _MEDIAN_OF_PAIRS, _LEAST_SCALE)
    return [_near_middle(session, reach) for session in sessions]


def usual_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of repeats without odd ones; of one value exactly that value."""
    if len(values) == 1:
        return values[0]
    (kept,) = without_odd_runs([[math.log(value) for value in values]])
    return math.exp(math.fsum(kept) / len(kept))


def _near_middle(session: Session, reach: float) -> Session:
    middle = float(np.median(session))
    near = [value for value in session if abs(value - middle) <= reach]
    return near if 2 * len(near) > len(session) else session


def measure_spread(groups: Sequence[Sequence[Session]], assumed: Assumed = USUAL) -> Spread | None:
    """Return the spread between sessions; None where there is only one run.

    Args:
        groups: sessions whose means may be compared with each other (one machine, one request), oldest first. Several
            groups when the two sides of a comparison differ on purpose.
        assumed: counts where these are too few, unless they differ by more.
    """
    known = [group for group in groups if group]
    sessions = [session for group in known for session in group]
    if sum(map(len, sessions)) < 2:
        return None
    within, repeats = _within(sessions), len(sessions) / sum(1 / len(session) for session in sessions)
    squares, freedom = 0.0, 0.0
    for group in known:
        if len(group) > 1:
            means = np.array([np.mean(session) for session in group])
            inflation, its_freedom = _inflation(means)
            squares += inflation * float(means.var(ddof=1)) * its_freedom
            freedom += its_freedom
    measured = squares / freedom if freedom else 0.0
    if len(sessions) - len(known) + 1 >= ENOUGH_SESSIONS:
        between, source = measured, Source.SESSIONS
    else:
        of_repeats = _variance_of_mean(within**2, repeats, assumed.correlation)
        between, source = max(measured, assumed.spread**2, of_repeats), Source.ASSUMED
        freedom = assumed.freedom
    return Spread(
        source=source,
        between=float(np.sqrt(between)),
        within=within,
        repeats=repeats,
        freedom=freedom,
        count=len(sessions),
    )


def drop_sessions_like(new: float, base: float, history: Sequence[Session]) -> list[Session]:
    """Return a history without its newest sessions that are nearer to ``new`` than to ``base``.

    A slowdown that happened three days ago must not count as three days of noise. Sessions at today's level that were
    followed by sessions at the base's level are kept: such a machine alternates by itself.

    Args:
        new: the mean of the session in question, a logarithm.
        base: the mean of what it is compared with.
        history: oldest first.
    """
    kept = list(history)
    while kept and abs(float(np.mean(kept[-1])) - new) < abs(float(np.mean(kept[-1])) - base):
        kept.pop()
    return kept


def _within(sessions: Sequence[Session]) -> float:
    """Return the standard deviation of repeats within their sessions, pooled; 0 where each session is one run."""
    freedom = sum(len(session) - 1 for session in sessions)
    squares = sum(float(np.var(session)) * len(session) for session in sessions)
    return float(np.sqrt(squares / freedom)) if freedom else 0.0


def _inflation(means: np.ndarray) -> tuple[float, float]:
    """Return the variance inflation of a series with correlated neighbours, and its degrees of freedom.

    The correlation of neighbours is corrected for the bias that short series have (Marriott and Pope, 1954).
    """
    count, centred = len(means), means - means.mean()
    squares = float(centred @ centred)
    if count < ENOUGH_SESSIONS or squares == 0:
        return 1.0, count - 1.0
    found = float(centred[1:] @ centred[:-1]) / squares
    correlation = min(found + (1 + 4 * found) / count, CORRELATION)
    if correlation <= 0:
        return 1.0, count - 1.0
    share = _share_of_mean(correlation, count)
    return (1 - 1 / count) / (1 - share), max(1 / share - 1, _LEAST_FREEDOM)


def _variance_of_mean(variance: float, repeats: float, correlation: float) -> float:
    """Return the variance of the mean of correlated repeats, from the variance that they show around it."""
    count = max(round(repeats), 1)
    if count < 2:
        return variance
    share = _share_of_mean(correlation, count)
    return variance * (1 - 1 / count) * share / (1 - share)


def _share_of_mean(correlation: float, count: int) -> float:
    """Return the variance of the mean of an AR(1) series, as a share of that of its values."""
    lags = np.arange(1, count)
    return float(1 + 2 * np.sum((1 - lags / count) * correlation**lags)) / count
