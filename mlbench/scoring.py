"""From the accuracy run's replies to scores, and from the performance run's to whether they are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlbench.contracts.graph import Precision
from mlbench.contracts.metric import DifferenceLimits, LoggedReply, Metric, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """A target and the score held against it."""

    target: Target
    score: float
    """NaN where the metric gave none."""

    @property
    def is_met(self) -> bool:
        """Whether the score lies within the target's limits."""
        return self.target.is_met_by(self.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How right an accuracy run was."""

    scores: Mapping[str, float]
    targets: tuple[TargetResult, ...]
    line: str
    """The last line the official script prints for these scores."""

    @property
    def is_met(self) -> bool:
        """Whether all required targets are met."""
        return all(result.is_met for result in self.targets if result.target.required)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether replies seen while measuring are the accuracy run's."""

    checked: int
    """How many replies were held against the accuracy run's."""
    differing: tuple[int, ...]
    """Sample indices of those that differ by more than `DifferenceLimits.one`, one entry per reply."""
    mean: float
    """Of all differences."""
    largest: float
    limits: DifferenceLimits


def score(metric: Metric, replies: Sequence[LoggedReply]) -> Accuracy:
    """Score an accuracy run.

    Raises:
        InvalidRunError: the metric cannot score a reply, which it names.
    """
    scores = metric.score(replies)
    results = [TargetResult(target=target, score=scores.get(target.score, math.nan)) for target in metric.targets]
    return Accuracy(scores=dict(scores), targets=tuple(results), line=metric.line(scores))


def agreement(
    metric: Metric, sampled: Sequence[LoggedReply], reference: Iterable[LoggedReply], precision: Precision
) -> Agreement:
    """Hold sampled replies of a performance run against the accuracy run's to the same samples.

    Of a sample that the accuracy run was asked twice (MultiStream fills its last query) the first reply counts, as in
    the official scripts. A sample that it never answered differs wholly.
    """
    waiting: dict[int, list[int]] = {}
    for position, reply in enumerate(sampled):
        waiting.setdefault(reply.index, []).append(position)
    differences = [1.0] * len(sampled)
    for reply in reference:
        for position in waiting.pop(reply.index, ()):
            found = metric.difference(sampled[position].data, reply.data)
            differences[position] = found if 0 <= found <= 1 else 1.0  # a NaN, too
    limits = metric.difference_limits(precision)
    differing = [reply.index for reply, found in zip(sampled, differences, strict=True) if found > limits.one]
    return Agreement(
        checked=len(sampled),
        differing=tuple(differing),
        mean=sum(differences) / len(differences) if differences else 0.0,
        largest=max(differences, default=0.0),
        limits=limits,
    )
