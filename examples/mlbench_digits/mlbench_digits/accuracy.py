"""The share of right answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlbench import InvalidRunError, LoggedReply, Metric, Target


class Accuracy(Metric):
    """Scores ``acc`` in percent."""

    def __init__(self, labels: Sequence[int], targets: tuple[Target, ...]) -> None:
        self.targets = targets
        self._labels = labels

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return ``acc``; of two replies to one sample the first counts, as in the official scripts."""
        first = {reply.index: reply for reply in reversed(replies)}
        good = sum(self._is_right(reply) for reply in first.values())
        return {"acc": 100 * good / len(first)}

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``acc=91.348%``."""
        return f"acc={scores['acc']:.3f}%"

    def _is_right(self, reply: LoggedReply) -> bool:
        if len(reply.data) != 8:
            raise InvalidRunError(f"the reply to sample {reply.index} has {len(reply.data)} bytes, not 8.")
        return bool(np.frombuffer(reply.data, "<i8")[0] == self._labels[reply.index])
