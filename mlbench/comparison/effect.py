"""The speed-up between two sets of repeats, and its uncertainty.

Student's t and the normal distribution come from `scipy.special`: loading `scipy.stats`, which has the same and is
needed for the bootstrap, takes longer than the rest of a usual comparison.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlbench.comparison.spread import Session, Spread, without_odd_runs

CONFIDENCE = 0.95
POWER = 0.9
"""Statistical power for which the detectable slowdown is computed. Reports promise four of five: the error is itself an
estimate, and not every machine's noise is normal."""
_RESAMPLES = 9999
_SEED = 20240828
_FEW = 10
_ENOUGH_FOR_HUMPS = 5
_TWO_HUMPED_BELOW = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSteps:
    """The speeds that a machine alternates between by itself: logarithms, relative to the base's speed."""

    slowest: float
    """Logarithm of the slowest speed, at most 0."""
    fastest: float
    """Logarithm of the fastest speed, at least 0."""

    @property
    def apart(self) -> float:
        """Distance between the two: a slowdown must exceed it to be detected on a day when the machine is fast."""
        return self.fastest - self.slowest


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Speed-up of the new runs: 1.1 is 10 % more samples per second, or 10 % less time."""

    ratio: float
    """Ratio of the geometric means."""
    low: float
    high: float
    """Bounds of the interval, at 95 % confidence."""
    p_value: float | None
    """The p-value of the test; None where no test was possible."""
    error: float | None = None
    """Standard error of the ratio's logarithm; None where it is unknown."""
    freedom: float | None = None
    """Degrees of freedom of that error."""
    steps: MachineSteps | None = None
    """The machine's own variation; only changes beyond it count. None: no variation was observed."""


def effect_of(base: Sequence[float], new: Sequence[float], *, higher_is_better: bool) -> Effect:
    """Compare repeats: a value per run, at least two on each side, all positive.

    All computation is on logarithms, since speeds vary by factors. The interval is a bootstrap over repeats (BCa);
    below ten of them that is too narrow, and Welch's interval counts. The seed is fixed, so the same runs give the same
    numbers.
    """
    sign = 1 if higher_is_better else -1
    one, other = sign * np.log(base), sign * np.log(new)
    difference = float(other.mean() - one.mean())
    if np.ptp(one) == 0 and np.ptp(other) == 0:
        return Effect(
            ratio=math.exp(difference),
            low=math.exp(difference),
            high=math.exp(difference),
            p_value=1.0 if difference == 0 else 0.0,
        )
    low, high, p_value = _welch(one, other)
    if min(len(one), len(other)) >= _FEW:
        low, high = _bootstrap(one, other)
    return Effect(ratio=math.exp(difference), low=math.exp(low), high=math.exp(high), p_value=p_value)


def _welch(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """Return the interval of the difference of means, and the p-value of Welch's test; one of them varies."""
    from scipy import special

    difference, freedoms = float(other.mean() - one.mean()), (len(one) - 1, len(other) - 1)
    errors = one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)
    error = math.sqrt(sum(errors))
    freedom = sum(errors) ** 2 / sum(each**2 / count for each, count in zip(errors, freedoms, strict=True))
    reach = float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    p_value = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    return difference - reach, difference + reach, p_value


def effect_of_sessions(base: Sequence[Session], new: Sequence[Session], spread: Spread) -> Effect:
    """Compare sessions, given how much sessions differ when nothing changed.

    Args:
        base: the logarithms of each session's runs, signed so that more is faster.
        new: likewise.
        spread: between sessions.

    Student's t: the error of the difference is that of so many sessions on each side, not of so many runs.
    """
    one, other = (np.array([np.mean(session) for session in side]) for side in (base, new))
    variance = sum(
        spread.variance_of(len(side) / sum(1 / len(session) for session in side)) / len(side) for side in (base, new)
    )
    effect = _student(float(other.mean() - one.mean()), math.sqrt(variance), spread.freedom)
    return with_steps(effect, _steps_after(float(one.mean()), spread)) if spread.fastest > spread.slowest else effect


def effect_of_pairs(differences: Sequence[float]) -> Effect:
    """Compare interleaved runs, from the difference of the logarithms of each pair; at least two pairs."""
    values = np.asarray(differences, dtype=float)
    return _student(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1.0)


def unknown_effect(base: Sequence[float], new: Sequence[float]) -> Effect:
    """Return the ratio of two sets of signed logarithms about which nothing else is known."""
    ratio = math.exp(float(np.mean(new) - np.mean(base)))
    return Effect(ratio=ratio, low=0.0, high=math.inf, p_value=None)


def _steps_after(base: float, spread: Spread) -> MachineSteps:
    return MachineSteps(slowest=min(spread.slowest - base, 0.0), fastest=max(spread.fastest - base, 0.0))


def with_steps(effect: Effect, steps: MachineSteps) -> Effect:
    """Return an effect on a machine that alternates between speeds by itself.

    The interval covers the change for whichever of its speeds it had; the p-value is that of the speed that explains
    most.
    """
    if effect.error is None or effect.freedom is None:
        return effect
    difference = math.log(effect.ratio)
    beyond = beyond_steps(difference, steps)
    held = _student(beyond, effect.error, effect.freedom)
    reach = math.log(held.high) - beyond
    low, high = math.exp(difference - steps.fastest - reach), math.exp(difference - steps.slowest + reach)
    return replace(effect, low=low, high=high, p_value=held.p_value, steps=steps)


def beyond_steps(difference: float, steps: MachineSteps | None) -> float:
    """Return the part of a difference beyond the machine's own variation; 0 within it."""
    if steps is None:
        return difference
    return difference - min(max(difference, steps.slowest), steps.fastest)


def _student(difference: float, error: float, freedom: float) -> Effect:
    from scipy import special

    if error == 0:
        p_value = 1.0 if difference == 0 else 0.0
    else:
        p_value = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    reach = float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    return Effect(
        ratio=math.exp(difference),
        low=math.exp(difference - reach),
        high=math.exp(difference + reach),
        p_value=p_value,
        error=error,
        freedom=freedom,
    )


def detectable_loss(effect: Effect, tests: int, margin: float, chance: float) -> float | None:
    """Return the smallest slowdown that four of five comparisons would detect, as a share; None where unknown.

    Args:
        effect: what was measured, with its error.
        tests: how many numbers are judged together.
        margin: smaller changes count as the same.
        chance: of a false alarm among all of them.
    """
    from scipy import special

    if effect.error is None or effect.freedom is None:
        return None
    sure = float(special.stdtrit(effect.freedom, 1 - chance / (2 * tests)))
    seen = float(special.stdtrit(effect.freedom, POWER))
    least = (effect.steps.apart if effect.steps else 0.0) + max(sure * effect.error, math.log1p(margin))
    return 1 - math.exp(-least - seen * effect.error)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, corrected for multiple testing.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    order = np.argsort(p_values)
    raised = np.asarray(p_values, dtype=float)[order] * np.arange(len(order), 0, -1)
    found = np.empty(len(order))
    found[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return [float(value) for value in found]


def _bootstrap(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return the BCa interval of the difference of means; the percentile one where BCa has none."""
    from scipy import stats

    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)
            found = stats.bootstrap(
                (other, one),
                lambda new, base, axis: new.mean(axis=axis) - base.mean(axis=axis),
                confidence_level=CONFIDENCE,
                n_resamples=_RESAMPLES,
                method=method,
                rng=np.random.default_rng(_SEED),
            ).confidence_interval
        if np.isfinite([found.low, found.high]).all():
            break
    return float(found.low), float(found.high)


def mean_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the geometric mean of repeats without odd ones, and its interval's ends at 95 %; None of a single value.

    Student's t on the logarithms: as many repeats as runs have are too few for a bootstrap.
    """
    from scipy.special import stdtrit

    (kept,) = without_odd_runs([[math.log(value) for value in values]])
    logarithms = np.asarray(kept)
    mean, count = float(logarithms.mean()), len(logarithms)
    if count < 2:
        return math.exp(mean), None, None
    reach = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2) * logarithms.std(ddof=1) / math.sqrt(count))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def is_bimodal(values: Sequence[float]) -> bool:
    """Return whether repeats are bimodal, as when a machine has two speeds: their mean is then meaningless.

    Hartigan's dip test at 1 %; fewer than five values never are.
    """
    from diptest import diptest

    if len(values) < _ENOUGH_FOR_HUMPS or min(values) == max(values):
        return False
    return bool(diptest(np.log(np.asarray(values, dtype=float)))[1] < _TWO_HUMPED_BELOW)
