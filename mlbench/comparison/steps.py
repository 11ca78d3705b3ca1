"""Changes of the level of a series of numbers, and their size. Takes numbers, and knows nothing of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from mlbench.comparison.effect import Effect, effect_of, unknown_effect
from mlbench.comparison.spread import usual_mean
from mlbench.comparison.verdicts import MARGIN
from mlbench.errors import UsageError

SHORTEST = 3
"""The least number of sessions of a level: two that differ from the rest may just be bad days."""

PENALTY = 3.0
"""The penalty of a change point in PELT, in squared spreads times the logarithm of the number of runs."""

CHANCE = 0.01
"""Significance level of a step: stricter than a comparison's, since histories are checked daily."""

_LEAST_SPREAD = 0.001
"""No machine is more repeatable than this; it also avoids a division by zero for identical runs."""

_GAUSSIAN = 1.4826 / math.sqrt(2)
"""Factor from the median distance between neighbours to their standard deviation."""


def steps_in(
    values: Sequence[float], *, higher_is_better: bool, margin: float = MARGIN, sessions: Sequence[int] | None = None
) -> list[tuple[int, Effect]]:
    """Return the changes of a series' level, each with its speed-up.

    Steps are proposed by a penalised least-squares fit of levels to the logarithms (PELT). A step is kept if it exceeds
    the margin and is significant in Welch's test, corrected for the choice among all places (Bonferroni); the least
    significant is removed first, and the others are tested again. Values of one session have a machine's state in
    common: the test counts their mean as one, and a level has three sessions at least.

    Args:
        values: positive, oldest first.
        higher_is_better: which way is faster.
        margin: smaller relative steps are ignored.
        sessions: the session of each value; where left out, each value is one.

    Raises:
        UsageError: ruptures is not installed.

    Source: Killick, Fearnhead and Eckley, Optimal detection of changepoints with a linear computational cost, 2012.
    """
    among = range(len(values)) if sessions is None else sessions

    @cache  # removing a step changes only its neighbours
    def effect(before: int, index: int, after: int) -> Effect:
        sides = [session_means(values[one:end], among[one:end]) for one, end in ((before, index), (index, after))]
        if min(map(len, sides)) < SHORTEST:
            return unknown_effect(*(list(map(math.log, side)) for side in sides))
        return effect_of(*sides, higher_is_better=higher_is_better)

    proposed = _propose_steps(values, spread_of(session_means(values, among)))
    while proposed:
        ends = [0, *proposed, len(values)]
        effects = dict(zip(proposed, map(effect, ends, proposed, ends[2:]), strict=True))
        p_values = {index: _adjust_p_value(effects, index, len(values), margin) for index in proposed}
        least = max(proposed, key=lambda index: (p_values[index], -abs(math.log(effects[index].ratio))))
        if p_values[least] < CHANCE:
            return list(effects.items())
        proposed.remove(least)
    return []


def spread_of(values: Sequence[float]) -> float:
    """Return the variation of a series from one value to the next, as a share, regardless of steps."""
    if len(values) < 2:
        return 0.0
    between = np.diff(np.log(np.asarray(values, dtype=float)))
    return float(_GAUSSIAN * np.median(np.abs(between - np.median(between))))


def session_means(values: Sequence[float], sessions: Sequence[int]) -> list[float]:
    """Return the geometric mean of each session's values."""
    found: dict[int, list[float]] = {}
    for value, session in zip(values, sessions, strict=True):
        found.setdefault(session, []).append(value)
    return [usual_mean(some) for some in found.values()]


def _propose_steps(values: Sequence[float], spread: float) -> list[int]:
    try:
        from ruptures import KernelCPD
    except ImportError:
        raise UsageError("steps in a history need ruptures.", hint="pip install 'mlbench-inference[history]'") from None
    if len(values) < 2 * SHORTEST:
        return []
    logarithms = np.log(np.asarray(values, dtype=float)) / max(spread, _LEAST_SPREAD)
    fit = KernelCPD(kernel="linear", min_size=SHORTEST).fit(logarithms.reshape(-1, 1))  # (runs, 1)
    return [int(index) for index in fit.predict(pen=PENALTY * math.log(len(values)))[:-1]]


def _adjust_p_value(effects: Mapping[int, Effect], index: int, count: int, margin: float) -> float:
    """Return the p-value of a step, corrected for the places that it and its neighbours might have had.

    Welch's test compares two levels, whose outer ends were chosen too. Within the margin nothing is a step.
    """
    effect, order = effects[index], list(effects)
    if effect.p_value is None or 1 / (1 + margin) <= effect.ratio <= 1 + margin:
        return 1.0
    beside = (order[0] != index) + (order[-1] != index)
    return float(effect.p_value * (count - 2 * SHORTEST + 1) ** (1 + beside))
