"""A metric: computes official scores from replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.precision import Precision
from mlbench.errors import InvalidRunError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedReply:
    """One entry of LoadGen's accuracy log."""

    index: int
    data: bytes
    token_data: bytes | None = None
    """The first token, if it was reported."""
    token_count: int | None = None

    def check_index(self, samples: int) -> None:
        """Raise `InvalidRunError` if it answers none of so many samples."""
        if not 0 <= self.index < samples:
            raise InvalidRunError(f"sample {self.index} was answered, but there are {samples} samples.")

    def size_error(self, wanted: object) -> InvalidRunError:
        """Return the error of a reply that has another size than it should: of bytes, or in words."""
        return InvalidRunError(f"the reply to sample {self.index} has {len(self.data)} bytes, not {wanted}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Limits of a score: ``lower <= score <= upper`` (the official comparison, ends included)."""

    score: str
    """Name of the score, as the metric returns it."""
    reference: float
    """The reference implementation's score."""
    lower: float | None = None
    """None: there is only an upper bound."""
    upper: float | None = None
    name: str = ""
    """The variant that requires it: ``99`` or ``99.9``."""
    required: bool = True
    """False for a stricter variant that is reported but does not decide whether the run is accurate."""
    lower_is_better: bool = False
    """Whether a lower score is better, for comparing two runs: True for a distance or an error rate."""

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise ValueError(f"target of {self.score}: neither a lower nor an upper bound is given")

    def is_met_by(self, score: float) -> bool:
        """Return whether a score lies within the limits; a NaN never does."""
        return (self.lower is None or self.lower <= score) and (self.upper is None or score <= self.upper)

    @classmethod
    def at_least(cls, score: str, lower: float, *, reference: float, name: str = "", required: bool = True) -> Target:
        """Return a target for a score that is better if higher: ``Target.at_least("acc", 75.7, reference=76.46)``."""
        return cls(score=score, reference=reference, lower=lower, name=name, required=required)

    @classmethod
    def at_most(cls, score: str, upper: float, *, reference: float, name: str = "", required: bool = True) -> Target:
        """Return a target for a score that is better if lower, such as an error rate or a distance."""
        return cls(score=score, reference=reference, upper=upper, name=name, required=required, lower_is_better=True)

    def scaled_to(self, reference: float) -> Target:
        """Return the target at the same shares of another reference score, such as a mini model's.

        Raises:
            ValueError: the reference is 0.
        """
        if not self.reference:
            raise ValueError(f"target of {self.score}: the reference is 0, so the target cannot be scaled")
        lower, upper = (None if end is None else reference * (end / self.reference) for end in (self.lower, self.upper))
        return replace(self, reference=reference, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLimits:
    """Limits of `Metric.difference` between replies of the performance run and of the accuracy run."""

    one: float
    """A reply with a larger difference counts as different. One in a hundred may be different."""
    mean: float
    """Largest mean difference of all checked replies. Rounding changes few replies a lot or all of them a little; a
    real fault changes all of them, which this limit detects first."""

    def __post_init__(self) -> None:
        if not (0 <= self.one <= 1 and 0 <= self.mean <= 1):
            raise ValueError(f"limits of a difference must be from 0 to 1: {self}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputReference:
    """The fp32 model's outputs for some samples, and the largest difference of an honest run from them.

    On a small data set the official score is coarse: weights with 10 % noise may still meet the target. Comparing the
    outputs detects them.
    """

    outputs: Mapping[int, np.ndarray]
    """Outputs by sample index, as `Metric.outputs` reads a reply."""
    bounds: Mapping[Precision, float]
    """Largest mean difference by precision; a missing precision was not measured."""
    unit: str
    """Unit of the difference: ``in logits``, ``of the tokens``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """Difference of a run's outputs from the fp32 model's.

    For numbers the mean absolute difference; for ids (integers: labels, tokens) the share that differs.
    """

    value: float
    precision: Precision
    """The run's precision."""
    bounds: Mapping[Precision, float]
    """The bound of each precision."""
    unit: str
    samples: int
    """Number of samples compared."""

    @property
    def bound(self) -> float | None:
        """The bound for the run's precision; None: not measured."""
        return self.bounds.get(self.precision)

    @property
    def is_met(self) -> bool:
        """Whether there is no bound or the difference is within it; a NaN never is."""
        return self.bound is None or self.value <= self.bound


class Metric(ABC):
    """Scores the accuracy log exactly as the official script does."""

    targets: tuple[Target, ...]
    output_reference: OutputReference | None = None
    """Reference outputs to compare the accuracy run's with; None where there are none, as for official models."""
    reply_limits: Mapping[Precision, DifferenceLimits] | None = None
    """What `difference_limits` returns by default, by precision."""

    @abstractmethod
    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores by name, equal to the official script's on the same log.

        Raises `InvalidRunError` for a log the official script cannot score (an empty payload, a wrong size), naming the
        sample.
        """

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Read a reply in the form of an `OutputReference`: one axis of float32 for numbers, of integers for ids.

        By default the bytes. Only called for replies that `score` accepted.
        """
        import numpy as np

        return np.frombuffer(reply.data, np.uint8)

    @abstractmethod
    def line(self, scores: Mapping[str, float]) -> str:
        """Return the last line the official script prints for these scores."""

    def first_wrong(self) -> str:
        """Return the first answer that `score` found to be wrong, as a sentence; empty by default.

        Targets of a user's own model are limits of differences: whose answers differ is the first question then.
        """
        return ""

    def computed_with(self) -> Mapping[str, str]:
        """Return further dependencies of scores besides replies, data and code, by the score's name; none by default.

        These are data or tools that a machine may lack, or have in another version: ``{"GEN_LEN": "NLTK 3.9.1 ..."}``.
        The record keeps them.
        """
        return {}

    def as_computed(self, computed_with: Mapping[str, str], scores: Collection[str]) -> Metric:
        """Return a metric that scores as an earlier one did, if possible on this machine; by default this one.

        Args:
            computed_with: the earlier metric's `computed_with`; empty in records that do not have it.
            scores: the names of its scores.
        """
        return self

    def write_artifacts(self, replies: Sequence[LoggedReply], folder: Path) -> None:
        """Write artifacts into ``folder``, such as images that a submission must include.

        Called after `score`, with the same replies; nothing by default.
        """

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the difference of a performance run's reply from the accuracy run's reply to the same sample.

        0 is equal, 1 unrelated or not a possible reply to this sample; NaN or more than 1 counts as 1. By default it
        compares bytes; a metric that compares logits can return the size of the change.
        """
        return float(reply != reference)

    def difference_limits(self, precision: Precision) -> DifferenceLimits:
        """Return how much replies may change at a precision when the same samples come in other batches.

        Without `reply_limits` one reply in a hundred may change. Set them from measurements, far above those and far
        below the effect of real faults: `benchmarks/reply_agreement.py` measures both.
        """
        return self.reply_limits[precision] if self.reply_limits else DifferenceLimits(one=0.0, mean=0.01)
