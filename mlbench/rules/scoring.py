"""Scores the accuracy run's replies, and compares the performance run's replies with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mlbench.contracts.metric import DifferenceLimits, LoggedReply, Metric, OutputDifference, OutputReference, Target
from mlbench.contracts.precision import Precision
from mlbench.errors import InvalidRunError


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """A target and the score that was reached."""

    target: Target
    score: float
    """NaN where the metric gave none."""

    @property
    def is_met(self) -> bool:
        """Whether the score lies within the target's limits."""
        return self.target.is_met_by(self.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy of an accuracy run."""

    scores: Mapping[str, float]
    targets: tuple[TargetResult, ...]
    line: str
    """The last line the official script prints for these scores."""
    output_difference: OutputDifference | None = None
    """How far outputs are from the fp32 model's; None where the metric has no `OutputReference`."""
    computed_with: Mapping[str, str] = field(default_factory=dict)
    """See `Metric.computed_with`."""
    first_wrong: str = ""
    """See `Metric.first_wrong`."""

    @property
    def is_met(self) -> bool:
        """Whether all required targets are met, and outputs are close enough to the fp32 model's."""
        is_near = self.output_difference is None or self.output_difference.is_met
        return is_near and all(result.is_met for result in self.targets if result.target.required)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether replies of the performance run equal the accuracy run's."""

    checked: int
    """How many replies were compared with the accuracy run's."""
    differing: tuple[int, ...]
    """Sample indices of those that differ by more than `DifferenceLimits.one`, one entry per reply."""
    mean: float
    """Mean of all differences."""
    largest: float
    limits: DifferenceLimits


def score(
    metric: Metric,
    replies: Sequence[LoggedReply],
    precision: Precision = Precision.FP32,
    targets: Sequence[Target] | None = None,
) -> Accuracy:
    """Score an accuracy run that says it computed in a precision.

    Args:
        metric: of the workload.
        replies: the accuracy log.
        precision: the run's.
        targets: what the scores must reach; None: what the metric demands.

    Raises:
        InvalidRunError: the metric cannot score a reply, which it names, or one that it has a reference for is missing.
    """
    scores = metric.score(replies)
    reference = metric.output_reference
    difference = output_difference(metric, reference, replies, precision) if reference else None
    assessed = assess(metric, scores, difference, metric.targets if targets is None else targets)
    computed_with = {name: by for name, by in metric.computed_with().items() if name in assessed.scores}
    return replace(assessed, computed_with=computed_with, first_wrong=metric.first_wrong())


def assess(
    metric: Metric, scores: Mapping[str, float], difference: OutputDifference | None, targets: Sequence[Target]
) -> Accuracy:
    """Return scores with the targets that they reach."""
    results = [TargetResult(target=target, score=scores.get(target.score, math.nan)) for target in targets]
    return Accuracy(scores=dict(scores), targets=tuple(results), line=metric.line(scores), output_difference=difference)


def output_difference(
    metric: Metric, reference: OutputReference, replies: Iterable[LoggedReply], precision: Precision
) -> OutputDifference:
    """Return how far replies are from the fp32 model's; the first reply to a sample counts.

    Raises:
        InvalidRunError: there is no reply to a sample that the reference holds.
    """
    apart: dict[int, tuple[float, int]] = {}
    for reply in replies:
        if reply.index in reference.outputs and reply.index not in apart:
            apart[reply.index] = _apart(metric.outputs(reply), reference.outputs[reply.index])
    if unanswered := sorted(set(reference.outputs) - set(apart)):
        raise InvalidRunError(f"sample {unanswered[0]} was not answered, and its answer is to be compared.")
    total, count = (sum(part) for part in zip(*apart.values(), strict=True))
    return OutputDifference(
        value=total / count,
        precision=precision,
        bounds=reference.bounds,
        unit=reference.unit,
        samples=len(apart),
    )


def differences_measured(
    metric: Metric, kept: Iterable[LoggedReply], replies: Iterable[LoggedReply], precision: Precision
) -> tuple[OutputDifference, OutputDifference] | None:
    """Return how far replies are from the fp32 model's: the performance run's, and the accuracy run's to the same.

    None where there are no outputs to compare with, or none to these samples.
    """
    reference, sampled = metric.output_reference, {reply.index: reply for reply in kept}
    if reference is None or not (shared := sampled.keys() & reference.outputs.keys()):
        return None
    of_shared = replace(reference, outputs={index: reference.outputs[index] for index in sorted(shared)})
    same = [reply for reply in replies if reply.index in shared]
    one, other = (output_difference(metric, of_shared, each, precision) for each in (sampled.values(), same))
    return one, other


def _apart(found: np.ndarray, wanted: np.ndarray) -> tuple[float, int]:
    """Return by how much two outputs differ in all, and in how many places they were compared.

    Of names (integers) each place that holds another, or that only one of them has, counts 1; of numbers the absolute
    difference counts, where only one has a place that to 0.
    """
    shared, longest = min(len(found), len(wanted)), max(len(found), len(wanted))
    if found.dtype.kind in "iu":
        return longest - int((found[:shared] == wanted[:shared]).sum()), longest
    both = np.zeros((2, longest))
    both[0, : len(found)], both[1, : len(wanted)] = found, wanted
    return float(np.abs(both[0] - both[1]).sum()), longest


def agreement(
    metric: Metric, sampled: Sequence[LoggedReply], reference: Iterable[LoggedReply], precision: Precision
) -> Agreement:
    """Compare sampled replies of a performance run with the accuracy run's to the same samples.

    Of a sample that the accuracy run was asked twice (MultiStream fills its last query) the first reply counts, as in
    the official scripts. A sample that it never answered counts as entirely different.
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
