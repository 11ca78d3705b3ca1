"""ROC AUC and the share of right guesses, as the official script computes them.

Source: MLPerf Inference v4.1, recommendation/dlrm_v2/pytorch/tools/accuracy-dlrm.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, Target
from mlbench.toolkit import limits_by_precision
from mlbench_dlrm_v2.dataset import Truth

LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.01, mean=0.001),
    half=DifferenceLimits(one=0.15, mean=0.03),
    eight_bits=DifferenceLimits(one=0.25, mean=0.05),
)
"""Limits of the probabilities' difference from the accuracy run's; the README has the measurements."""

PREDICTION = np.dtype("<f4")


class ClickAuc(Metric):
    """Scores ``AUC`` and ``accuracy`` in percent over all rows of the samples logged, with the counts behind them."""

    reply_limits = LIMITS

    def __init__(self, truth: Truth | None, targets: tuple[Target, ...]) -> None:
        """Store the references and limits.

        Args:
            truth: the labels of replies that are predictions alone; None: each prediction is followed by its label.
            targets: limits of the scores.
        """
        self.targets = targets
        self._truth = truth

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return ``AUC``, ``accuracy``, ``good``, ``total`` and ``queries``; the first reply to a sample counts.

        Raises:
            InvalidRunError: a reply has not one number for each of its sample's rows, or is to no known sample; or a
                label is neither 0 nor 1, or all are alike, which leaves the AUC undefined.
        """
        from sklearn.metrics import roc_auc_score

        first: dict[int, LoggedReply] = {}
        for reply in replies:
            first.setdefault(reply.index, reply)
        rows = [self._rows(reply) for reply in first.values()]
        predictions, labels = (
            (np.concatenate(parts) for parts in zip(*rows, strict=True)) if rows else (np.empty(0),) * 2
        )
        if len(wrong := labels[(labels != 0) & (labels != 1)]):
            raise InvalidRunError(f"a label is {wrong[0]:g}, not 0 or 1.")
        if not len(labels) or labels.min() == labels.max():
            raise InvalidRunError(f"the labels of all {len(labels)} rows logged are alike, which leaves AUC undefined.")
        good = int((predictions.round() == labels).sum())  # NumPy rounds 0.5 to 0, as the official script does
        return {
            "AUC": 100 * float(roc_auc_score(labels, predictions)),
            "accuracy": 100 * good / len(labels),
            "good": good,
            "total": len(labels),
            "queries": len(first),
        }

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return the probability of each row."""
        return self._rows(reply)[0]

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``AUC=80.233%, accuracy=96.606%, good=86111793, total=89137319, queries=330067``."""
        shares = ", ".join(f"{name}={scores[name]:.3f}%" for name in ("AUC", "accuracy"))
        return f"{shares}, " + ", ".join(f"{name}={scores[name]:.0f}" for name in ("good", "total", "queries"))

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the largest difference of a probability.

        Another batch means other kernels and another order of summation. Replies to different samples are 0.2 apart on
        average, and most of 1 in some row.
        """
        if len(reply) != len(reference) or not len(reply) or len(reply) % PREDICTION.itemsize:
            return 1.0
        return float(np.abs(np.frombuffer(reply, PREDICTION) - np.frombuffer(reference, PREDICTION)).max())

    def _rows(self, reply: LoggedReply) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions and labels of a reply's rows."""
        size = len(reply.data)
        if self._truth is None:
            if not size or size % (2 * PREDICTION.itemsize):
                raise reply.size_error("pairs of float32")
            values = np.frombuffer(reply.data, PREDICTION).reshape(-1, 2)
            predictions, labels = values[:, 0], values[:, 1]
        else:
            reply.check_index(len(self._truth.starts))
            labels = self._truth.labels[self._truth.starts[reply.index] : self._truth.ends[reply.index]]
            if size != len(labels) * PREDICTION.itemsize:
                raise reply.size_error(f"one float32 for each of its {len(labels)} rows")
            predictions = np.frombuffer(reply.data, PREDICTION)
        if not np.isfinite(predictions).all():
            raise InvalidRunError(f"the reply to sample {reply.index} contains a prediction that is not a number.")
        return predictions, labels
