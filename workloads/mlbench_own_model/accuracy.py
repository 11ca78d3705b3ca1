"""How far answers to the samples are from the reference's."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, OutputReference, Precision, Target, Variant
from mlbench_own_model.answers import differ
from mlbench_own_model.dataset import ModelInputs
from mlbench_own_model.graphs import OpenModel, open_model
from mlbench_own_model.options import OwnModelOptions
from mlbench_own_model.program import reply_dtype
from mlbench_own_model.reference import Limits, Reference, agreement, read_reference

DIFFERENCE, LARGEST, AGREEMENT = "difference", "largest_difference", "agreement"


class OutputDifferences(Metric):
    """Scores the mean and the largest difference from the reference, and how often the largest score is the same.

    Differences are shares of an output's largest value. Of several outputs the worst is judged; each has its own scores
    as well.
    """

    def __init__(self, opened: OpenModel, data: ModelInputs, options: OwnModelOptions, precision: Precision) -> None:
        """Store what the reference is computed from, when the first answer is scored."""
        self._opened = opened
        self._data = data
        self._options = options
        self._precision = precision
        self._dtype = np.dtype(reply_dtype(opened.signature)).newbyteorder("<")
        self._names = [spec.name for spec in opened.signature.outputs]
        self._first_wrong = ""

    @classmethod
    def for_run(cls, variant: Variant, data: ModelInputs) -> Self:
        """Return the metric of a run. The reference's backend is loaded in a process of its own only."""
        options: OwnModelOptions = variant.options
        return cls(open_model(options), data, options, variant.precision)

    @functools.cached_property
    def reference(self) -> Reference:
        """The right answers."""
        return read_reference(self._opened, self._data, self._options)

    @property
    def limits(self) -> Limits:
        """The limits of the run's precision; of one that is not known int8's."""
        return limits_at(self.reference, self._precision)

    @property
    def targets(self) -> tuple[Target, ...]:  # type: ignore[override]
        """The limits as targets."""
        limits, agreed = self.limits, Target.at_least(AGREEMENT, 100 * self.limits.agreement, reference=100.0)
        if self._dtype.kind in "iu":
            return (agreed,)
        return (
            Target.at_most(DIFFERENCE, limits.difference, reference=0.0),
            *([agreed] if self._scored else []),
            Target.at_most(LARGEST, limits.largest, reference=0.0),
        )

    @functools.cached_property
    def output_reference(self) -> OutputReference:  # type: ignore[override]
        """The right answers in shares of their largest values."""
        reference = self.reference
        is_of_ids = self._dtype.kind in "iu"
        bounds = {
            precision: 1 - each.agreement if is_of_ids else each.difference
            for precision, each in reference.limits.items()
        }
        return OutputReference(
            outputs={index: self._scaled(parts) for index, parts in enumerate(reference.outputs)},
            bounds=bounds,
            unit="of all ids" if is_of_ids else "of an output's largest value",
        )

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return a reply's numbers in shares of each output's largest value; ids as they are."""
        return self._scaled(self._split(reply))

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the differences over all samples, in shares of an output's largest value, and the agreement.

        Raises:
            InvalidRunError: there are no replies, or one has another size than the reference's answer.
        """
        if not replies:
            raise InvalidRunError("the accuracy log has no replies.")
        first = {reply.index: reply for reply in reversed(replies)}
        order = sorted(first)
        found = [self._split(first[index]) for index in order]
        wanted = [self.reference.outputs[index] for index in order]
        scores: dict[str, float] = {}
        for place, name in enumerate(self._names):
            ours, theirs = [each[place] for each in found], [each[place] for each in wanted]
            suffix = f".{name}" if len(self._names) > 1 else ""
            if self._dtype.kind == "f":
                apart = [self._apart(*pair, place) for pair in zip(ours, theirs, strict=True)]
                scores[DIFFERENCE + suffix] = float(np.mean(np.concatenate(apart)))
                scores[LARGEST + suffix] = float(np.max(np.concatenate(apart)))
                self._note_wrong(order, [float(each.max(initial=0)) for each in apart], name)
            if place in self._scored:
                scores[AGREEMENT + suffix] = 100 * agreement(theirs, ours)
        return _with_worst(scores)

    def first_wrong(self) -> str:
        """Return the first sample whose answer differs too much, and its output."""
        return self._first_wrong

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``difference=1.2e-06 (at most 1e-05 in fp32), largest_difference=...``."""
        parts = []
        for target in self.targets:
            limit = target.upper if target.lower_is_better else target.lower
            bound = f"{'at most' if target.lower_is_better else 'at least'} {limit:.2g} in {self._precision}"
            parts.append(f"{target.score}={scores.get(target.score, math.nan):.3g} ({bound})")
        return ", ".join(parts)

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the mean difference of two replies, in shares of the second's largest value; of ids the share."""
        one, other = (np.frombuffer(each, self._dtype) for each in (reply, reference))
        if one.size != other.size:
            return 1.0
        if self._dtype.kind in "iu":
            return float(np.mean(one != other))
        apart = differ(one, other)
        return float(min(1.0, apart.mean() / (np.abs(other[np.isfinite(other)]).max(initial=0) or 1.0)))

    def difference_limits(self, precision: Precision) -> DifferenceLimits:
        """Return the limits of this model at a precision: a batch rounds no more than the precision does."""
        limits = limits_at(self.reference, precision)
        if self._dtype.kind in "iu":
            return DifferenceLimits(one=0.0, mean=1 - limits.agreement)
        return DifferenceLimits(one=min(1.0, limits.largest), mean=min(1.0, limits.difference))

    @functools.cached_property
    def _scored(self) -> list[int]:
        """The places of outputs that look like scores or are ids: several numbers for each sample, along one axis."""
        shapes = [self._opened.signature.sample_shape(spec) for spec in self._opened.signature.outputs]
        is_of_ids = self._dtype.kind in "iu"
        return [place for place, shape in enumerate(shapes) if is_of_ids or (len(shape) == 1 and shape[0] != 1)]

    def _split(self, reply: LoggedReply) -> list[np.ndarray]:
        """Return a reply's outputs."""
        if not 0 <= reply.index < len(self.reference.outputs):
            raise InvalidRunError(f"sample {reply.index} was answered, and there is none.")
        sizes = [part.size for part in self.reference.outputs[reply.index]]
        flat = np.frombuffer(reply.data, self._dtype) if len(reply.data) % self._dtype.itemsize == 0 else np.zeros(0)
        if flat.size != sum(sizes):
            raise InvalidRunError(
                f"the reply to sample {reply.index} has {flat.size} numbers, and the reference {sum(sizes)}."
            )
        return np.split(flat, np.cumsum(sizes)[:-1])

    def _scaled(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        if self._dtype.kind in "iu":
            return np.concatenate(parts).astype(np.int64)
        scaled = [part / scale for part, scale in zip(parts, self.reference.scales, strict=True)]
        return np.nan_to_num(np.concatenate(scaled), nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)

    def _apart(self, found: np.ndarray, wanted: np.ndarray, place: int) -> np.ndarray:
        """Return differences in shares of the output's largest value."""
        return differ(found, wanted) / self.reference.scales[place]

    def _note_wrong(self, order: Sequence[int], largest: Sequence[float], name: str) -> None:
        limit = self.limits.largest
        wrong = next((at for at, value in enumerate(largest) if not value <= limit), None)
        if wrong is not None and not self._first_wrong:
            self._first_wrong = (
                f"The first answer that differs is to sample {order[wrong]}: output {name} by {largest[wrong]:.2g} of "
                f"its largest value, where {self._precision} explains {limit:.2g}."
            )


def limits_at(reference: Reference, precision: Precision) -> Limits:
    """Return the limits of a precision; of one that is not known int8's."""
    return reference.limits.get(precision, reference.limits[Precision.INT8])


def _with_worst(scores: Mapping[str, float]) -> Mapping[str, float]:
    """Return scores with the worst of all outputs under the plain name, first."""
    worst: dict[str, float] = {}
    for kind, choose in ((DIFFERENCE, max), (LARGEST, max), (AGREEMENT, min)):
        found = [value for name, value in scores.items() if name.partition(".")[0] == kind]
        if found:
            worst[kind] = choose(found)
    return {**worst, **scores}
