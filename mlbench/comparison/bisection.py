"""Finds the version that changed a number: what pairs of runs say of a version.

Versions are in order, the good end first; a place is a version's number, from 0. Each is compared with the good end by
pairs of runs, made one right after the other, so that the machine's drift cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from mlbench.comparison.bisection_order import VersionMark, suspects
from mlbench.comparison.effect import Effect, detectable_loss
from mlbench.comparison.kinds import KINDS, SPEED, MeasureKind, kind_named
from mlbench.comparison.measures import Measure, measures_of, why_not_counted
from mlbench.comparison.resources import processor_time_of, resources_of
from mlbench.comparison.scores import ACCURACY_MARGIN, judge_scores
from mlbench.comparison.sessions import LEAST_PAIRS
from mlbench.comparison.spread import usual_mean, without_odd_runs
from mlbench.comparison.verdicts import ALPHA
from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord

ACCURACY = "accuracy"
"""Names a run's first score with a target."""

PART = 0.4
"""By a strict rule a version is bad that has more than this part of the difference between the ends. Less than half: of
two equal losses the first one is to be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When pairs have a verdict."""

    versions: int
    """How many there are, both ends included."""
    pairs: int
    """Most pairs of a version."""
    margin: float
    """The ends must differ by more, as a share."""
    is_exact: bool = False
    """Whether the number hardly varies, as accuracy: one run of each version is enough."""
    is_strict: bool = False
    """Usually a version is bad that surely differs from the good end, and good that surely differs from the bad one:
    few pairs tell that, if the number changed once. If it changed in parts, some of the versions between two changes
    are called good and others bad. By a strict rule one limit parts good from bad, which takes several times the pairs,
    and those near the limit have no verdict."""

    @property
    def least(self) -> int:
        """Fewest pairs of a version."""
        return 1 if self.is_exact else LEAST_PAIRS

    @property
    def most(self) -> int:
        """Most pairs of a version."""
        return 1 if self.is_exact else self.pairs

    @property
    def steps(self) -> int:
        """How many versions between the ends are judged, as long as each has a verdict."""
        return max(0, math.ceil(math.log2(self.versions - 1)))

    @property
    def tests(self) -> int:
        """How many tests a bisection makes: a look after each pair, at one end and at each step."""
        return (self.most - self.least + 1) * (1 + self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The difference of a version from the good end."""

    mean: float
    """Signed, so that more is better: a logarithm, or of an exact number a share of the good end's."""
    error: float = 0.0
    """Standard error of the mean."""
    freedom: float = math.inf
    """Degrees of freedom of the error."""
    pairs: int = 1
    kept: int = 1
    """Pairs without those that lie far from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A version that was looked at."""

    mark: VersionMark
    runs: int = 0
    value: float | None = None
    """Geometric mean of its runs; None where none counts."""
    ratio: float | None = None
    """Against the good end: 0.9 is a tenth slower, or worse by other measures; of an amount 1.1 is a tenth more."""
    reason: str = ""
    """Why it was skipped; empty otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A commit, or an installation."""

    name: str
    """The commit's hash, or the command."""
    subject: str = ""
    """The first line of the commit's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """What a bisection found."""

    versions: tuple[Candidate, ...]
    tried: Mapping[int, Tried]
    """By place."""
    measure: str
    unit: str
    is_amount: bool = False
    """Whether ratios are of an amount, of which more is worse."""
    detectable: float | None = None
    """Where the ends do not differ: the smallest loss that would have been seen in four of five such comparisons, as a
    share; None where unknown."""

    @property
    def has_step(self) -> bool:
        """Whether the ends differ."""
        return self.tried[len(self.versions) - 1].mark is VersionMark.BAD

    @property
    def suspects(self) -> range:
        """The places of which one changed the number: one where it was found, none where the ends do not differ."""
        return suspects({place: each.mark for place, each in self.tried.items()}) if self.has_step else range(0)


def reading_of(record: RunRecord, measure: str) -> Measure:
    """Return a number of a run by its name: `ACCURACY`, a kind's (its first number), or a measure's beginning.

    Raises:
        ValueError: the run has no such number, or does not count; the message is the reason.
    """
    if measure == ACCURACY:
        return _score_of(record)
    if reason := why_not_counted(record):
        raise ValueError(reason)
    found, kind = [*measures_of(record), *processor_time_of(record), *resources_of(record)], kind_of(measure)
    named = [each for each in found if (kind and each.kind == kind.name) or each.name.startswith(measure)]
    if not named:
        has = ", ".join((*(each.name for each in found), *KINDS, ACCURACY))
        raise ValueError(f"it has no {measure!r}; it may have: {has}")
    return named[0]


def _score_of(record: RunRecord) -> Measure:
    """Return the first score with a target. A run that misses the target counts."""
    if record.failure:
        raise ValueError(why_not_counted(record))
    for score in judge_scores([record], [], ACCURACY_MARGIN):
        if score.base is not None:
            return Measure(name=score.name, value=score.base, unit="", higher_is_better=not score.lower_is_better)
    raise ValueError("it has no accuracy")


def difference(good: Measure, other: Measure, *, is_exact: bool) -> float:
    """Return how much better another run's number is: as `Seen.mean`."""
    sign = 1 if good.higher_is_better else -1
    if not is_exact:
        return sign * math.log(other.value / good.value)
    gain = sign * (other.value - good.value)
    return gain / abs(good.value) if good.value else math.copysign(math.inf, gain) if gain else 0.0


def see(groups: Sequence[Sequence[float]]) -> Seen:
    """Return the mean of the last group's differences, and its error.

    The noise is that of all groups together, or the last one's own if that is larger: three pairs alone show it badly.
    Pairs far from the others of their group are left out.
    """
    *_, own = kept = [without_odd_runs([group])[0] for group in groups]
    freedom = sum(len(each) - 1 for each in kept)
    pooled = sum(float(np.var(each)) * len(each) for each in kept) / freedom
    variance = max(pooled, float(np.var(own, ddof=1)) if len(own) > 1 else 0.0)
    error, count = math.sqrt(variance / len(own)), len(groups[-1])
    return Seen(mean=float(np.mean(own)), error=error, freedom=freedom, pairs=count, kept=len(own))


def judge(
    groups: Sequence[Sequence[float]], rule: Rule, step: float | None = None
) -> tuple[VersionMark | None, Seen | None]:
    """Return the mark of a version, and what it is judged by; None: it needs more pairs.

    Pairs are looked at one after another as if each had just been made, so that stored runs lead to the same verdict.

    Args:
        groups: the differences of each version that was judged so far, this one's last.
        rule: the chance of any wrong verdict in a bisection is that of a false alarm elsewhere.
        step: how much better the bad end is, as `Seen.mean`; None: the last group is the bad end itself.
    """
    *others, own = groups
    seen = None
    for count in range(rule.least, min(len(own), rule.most) + 1):
        seen = Seen(mean=own[0]) if rule.is_exact else see([*others, own[:count]])
        if mark := _mark(seen, rule, step):
            return mark, seen
    return (VersionMark.CANNOT_TELL if len(own) >= rule.most else None), seen


def _mark(seen: Seen, rule: Rule, step: float | None) -> VersionMark | None:
    """Return the verdict that these pairs allow; `Rule.is_strict` has the two ways for versions between the ends."""
    reach, least = _reach(seen, rule), rule.margin if rule.is_exact else math.log1p(rule.margin)
    if seen.kept < rule.least:
        return None
    if step is None:
        if abs(seen.mean) > max(reach, least):
            return VersionMark.BAD
        return VersionMark.GOOD if abs(seen.mean) + reach <= least else None
    along, size = math.copysign(1.0, step) * seen.mean, abs(step)
    if rule.is_strict:
        beyond = along - PART * size
        return (VersionMark.BAD if beyond > 0 else VersionMark.GOOD) if abs(beyond) > reach else None
    if along > reach and along >= min(least, size / 2):
        return VersionMark.BAD
    return VersionMark.GOOD if along < size / 2 and along + reach < size else None


def differ(one: Seen, other: Seen) -> bool:
    """Return whether two versions differ, which were compared with the good end each: one test at the usual chance."""
    from scipy.special import stdtrit

    surely = float(stdtrit(min(one.freedom, other.freedom), 1 - ALPHA / 2))
    return abs(one.mean - other.mean) > surely * math.hypot(one.error, other.error)


def _reach(seen: Seen, rule: Rule) -> float:
    from scipy.special import stdtrit

    if not seen.error:
        return 0.0
    return float(stdtrit(seen.freedom, 1 - ALPHA / (2 * rule.tests))) * seen.error


def least_seen(seen: Seen, rule: Rule) -> float | None:
    """Return the smallest loss between the ends that would have been seen, as `detectable_loss`."""
    if rule.is_exact:
        return rule.margin
    effect = Effect(
        ratio=math.exp(seen.mean), low=0.0, high=math.inf, p_value=None, error=seen.error, freedom=seen.freedom
    )
    return detectable_loss(effect, rule.tests, rule.margin, ALPHA)


def ratio_of(mean: float, rule: Rule) -> float:
    """Return a mean difference as a ratio."""
    return 1 + mean if rule.is_exact else math.exp(mean)


def mean_value(values: Sequence[float], rule: Rule) -> float | None:
    """Return the value of a version's runs: of exact numbers the first one's."""
    if not values:
        return None
    return values[0] if rule.is_exact else usual_mean(values)


def kind_of(measure: str) -> MeasureKind | None:
    """Return the kind that a name means; None where it is a measure's, or `ACCURACY`."""
    with suppress(UsageError):
        return kind_named(measure)
    return None


def rule_for(measure: str, *, versions: int, pairs: int, margin: float | None) -> Rule:
    """Return the rule for a measure; ``margin`` None is that of its kind."""
    kind, is_accuracy = kind_of(measure), measure == ACCURACY
    usual = ACCURACY_MARGIN if is_accuracy else (kind or SPEED).margin
    is_exact = is_accuracy or (kind is not None and kind.is_exact)
    return Rule(versions=versions, pairs=pairs, margin=usual if margin is None else margin, is_exact=is_exact)
