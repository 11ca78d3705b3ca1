"""Top-1 accuracy, as the official script counts it.

Source: MLPerf Inference v4.1, vision/classification_and_detection/tools/accuracy-imagenet.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, Target
from mlbench.toolkit import limits_by_precision

LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.0, mean=0.002),
    half=DifferenceLimits(one=0.0, mean=0.01),
    eight_bits=DifferenceLimits(one=0.0, mean=0.01),
)
"""Limits of the share of different labels: in fp32 one of 500; the README has the measurements."""


class Top1(Metric):
    """Scores ``acc`` in percent of the distinct samples logged, with the counts ``good`` and ``total`` behind it."""

    reply_limits = LIMITS

    def __init__(self, labels: Sequence[int], targets: tuple[Target, ...], dtype: str = "float32") -> None:
        """Store the references and limits.

        Args:
            labels: the true class of each sample.
            targets: what the score must reach.
            dtype: how replies are stored: float32, int32 or int64.
        """
        self.targets = targets
        self._labels = labels
        self._dtype = np.dtype(dtype)

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return ``acc``, ``good`` and ``total``; the first reply to a sample counts, and of that the first value.

        Raises:
            InvalidRunError: there are no replies, or one is empty, of an odd size, not a number, or to no known sample.
        """
        if not replies:
            raise InvalidRunError("the accuracy log has no replies.")
        first = {reply.index: reply for reply in reversed(replies)}
        good = sum(self._is_right(reply) for reply in first.values())
        return {"acc": 100 * good / len(first), "good": good, "total": len(first)}

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return the label, (1,) int64: the program's replies hold no other number."""
        return np.frombuffer(reply.data, self._dtype.newbyteorder("<"), count=1).astype(np.int64)

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``accuracy=76.076%, good=38038, total=50000``."""
        return f"accuracy={scores['acc']:.3f}%, good={scores['good']:.0f}, total={scores['total']:.0f}"

    def _is_right(self, reply: LoggedReply) -> bool:
        size = len(reply.data)
        if size == 0 or size % self._dtype.itemsize:
            raise reply.size_error(f"{self._dtype.name} values")
        value = np.frombuffer(reply.data, self._dtype.newbyteorder("<"), count=1)[0]
        if not np.isfinite(value):
            raise InvalidRunError(f"the reply to sample {reply.index} is {value}, not a label.")
        reply.check_index(len(self._labels))
        return int(value) == self._labels[reply.index]
