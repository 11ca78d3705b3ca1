"""A metric: replies in, official scores out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


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
        """Tell whether a score lies within the limits; a NaN never does."""
        return self.lower <= score and (self.upper is None or score <= self.upper)


class Metric(ABC):
    """Scores the accuracy log exactly as the official script does."""

    targets: tuple[Target, ...]

    @abstractmethod
    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores by name, equal to the official script's on the same log.

        Raises `InvalidRunError` for a log the official script cannot score (an empty payload, a wrong size), naming the
        sample.
        """

    @abstractmethod
    def line(self, scores: Mapping[str, float]) -> str:
        """Return the last line the official script prints for these scores."""

    def exhibit(self, replies: Sequence[LoggedReply], folder: Path) -> None:
        """Write into ``folder`` what is to be seen beside the scores, such as images that a submission must show.

        Called after `score`, with the same replies; nothing by default.
        """

    def agrees(self, reply: bytes, reference: bytes) -> bool:
        """Tell whether a reply seen while measuring is the accuracy run's reply to the same sample.

        Equal bytes unless a metric says otherwise; one that compares logits allows for another batch's rounding.
        """
        return reply == reference
