"""A metric: replies in, official scores out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contracts.graph import Precision

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedReply:
    """One entry of LoadGen's accuracy log."""

    index: int
    data: bytes
    token_data: bytes | None = None
    """What was reported as the first token, where one was."""
    token_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a score must reach: ``lower <= score <= upper`` (the official comparison, ends included)."""

    score: str
    """Name of the score, as the metric returns it."""
    reference: float
    """What the reference implementation reaches, in the score's own unit."""
    lower: float
    upper: float | None = None
    name: str = ""
    """The variant that demands it: ``99`` or ``99.9``."""
    required: bool = True
    """False for a stricter variant that is reported but does not decide whether the run is accurate."""
    lower_is_better: bool = False
    """Which way a score inside the limits is worse, for who compares two runs: True for a distance or an error rate."""

    def is_met_by(self, score: float) -> bool:
        """Return whether a score lies within the limits; a NaN never does."""
        return self.lower <= score and (self.upper is None or score <= self.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLimits:
    """How far replies of the performance run may be from the accuracy run's; in the unit of `Metric.difference`."""

    one: float
    """A reply that is further off differs. One in a hundred may."""
    mean: float
    """Of all replies that were checked, those that differ among them. Rounding moves few replies far or all by little;
    damage moves all, which shows here first."""

    def __post_init__(self) -> None:
        if not (0 <= self.one <= 1 and 0 <= self.mean <= 1):
            raise ValueError(f"limits of a difference lie from 0 to 1: {self}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputReference:
    """What the fp32 model answers to some samples, and how far an honest run's answers are from that at most.

    A small data set leaves an official score room: weights with 10 % noise may still meet the target. The answers
    themselves leave none.
    """

    outputs: Mapping[int, np.ndarray]
    """By sample index, as `Metric.outputs` reads a reply."""
    bounds: Mapping[Precision, float]
    """The largest mean difference that a run of a precision may have; one that is not here has not been measured."""
    unit: str
    """Of what the difference is: ``in logits``, ``of the tokens``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """How far a run's outputs are from the fp32 model's.

    Of numbers the mean absolute difference; of names (integers: labels, tokens) the share that is another.
    """

    value: float
    precision: Precision
    """What the run says it computed in."""
    bounds: Mapping[Precision, float]
    """What each precision may differ by."""
    unit: str
    samples: int
    """How many samples were compared."""

    @property
    def bound(self) -> float | None:
        """The largest difference for the run's precision; None: nobody has measured it."""
        return self.bounds.get(self.precision)

    @property
    def is_met(self) -> bool:
        """Whether there is no bound or the difference is within it; a NaN never is."""
        return self.bound is None or self.value <= self.bound


class Metric(ABC):
    """Scores the accuracy log exactly as the official script does."""

    targets: tuple[Target, ...]
    output_reference: OutputReference | None = None
    """What the accuracy run's outputs are held against beside the scores; None, as with official models: nothing."""

    @abstractmethod
    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores by name, equal to the official script's on the same log.

        Raises `InvalidRunError` for a log the official script cannot score (an empty payload, a wrong size), naming the
        sample.
        """

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Read a reply as what an `OutputReference` holds: one axis of float32 for numbers, of integers for names.

        The bytes, unless a metric says otherwise. Only replies that `score` took are asked for.
        """
        import numpy as np

        return np.frombuffer(reply.data, np.uint8)

    @abstractmethod
    def line(self, scores: Mapping[str, float]) -> str:
        """Return the last line the official script prints for these scores."""

    def write_artifacts(self, replies: Sequence[LoggedReply], folder: Path) -> None:
        """Write into ``folder`` what is to be seen beside the scores, such as images that a submission must show.

        Called after `score`, with the same replies; nothing by default.
        """

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return how far a reply seen while measuring is from the accuracy run's reply to the same sample.

        0 is the same, 1 has nothing to do with it or cannot be a reply to this sample; what is no number or beyond 1
        counts as 1. Equal bytes unless a metric says otherwise: one that compares logits sees how far they moved.
        """
        return float(reply != reference)

    def difference_limits(self, precision: Precision) -> DifferenceLimits:
        """Return what batching may change at a precision: the same samples in batches of another make-up.

        No reply but one in a hundred may change unless a metric says otherwise. Set limits from what was measured, far
        above it and far below what damage does: `benchmarks/reply_agreement.py` measures both.
        """
        return DifferenceLimits(one=0.0, mean=0.01)
