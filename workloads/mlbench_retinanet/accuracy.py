"""Mean average precision, as the official script computes it.

Source: MLPerf Inference v4.1, vision/classification_and_detection/tools/accuracy-openimages.py.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, Target
from mlbench.toolkit import limits_by_precision
from mlbench_retinanet.program import COLUMNS

LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.05, mean=0.002),
    half=DifferenceLimits(one=0.25, mean=0.03),
    eight_bits=DifferenceLimits(one=0.25, mean=0.05),
)
"""How far detections may be from the accuracy run's; the README says what was measured."""


class MeanAveragePrecision(Metric):
    """Scores ``mAP`` in percent, COCO's, over the images that were answered, and ``mAP50``, at an overlap of 0.5."""

    reply_limits = LIMITS

    def __init__(self, annotations: Mapping[str, Any], targets: tuple[Target, ...]) -> None:
        """Store the references and limits.

        Args:
            annotations: the official file's contents, in COCO form; the sample with index i is its i-th image.
            targets: what the score must reach.
        """
        self.targets = targets
        self._annotations = annotations
        self._images: Sequence[Mapping[str, Any]] = annotations["images"]

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return ``mAP``, ``mAP50`` and the number of ``detections``; the first reply to a sample counts.

        Raises:
            InvalidRunError: no image has a detection, or a reply is of an odd size, no number, or to no known sample.
        """
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        found: dict[int, np.ndarray] = {}
        for reply in replies:
            if reply.index not in found:
                found[reply.index] = self._found(reply)
        if not any(map(len, found.values())):
            raise InvalidRunError(f"of {len(found)} images answered none has a detection, which cannot be scored.")
        rows = np.concatenate(list(found.values()))
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints what it does
            truth = COCO()
            truth.dataset = dict(self._annotations)
            truth.createIndex()
            evaluation = COCOeval(truth, truth.loadRes(rows), iouType="bbox")
            evaluation.params.imgIds = [self._images[index]["id"] for index in found]
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return {
            "mAP": 100 * float(evaluation.stats[0]),
            "mAP50": 100 * float(evaluation.stats[1]),
            "detections": len(rows),
        }

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return a class's sum of scores, and of scores times each side of the box: (5 * classes,) float32.

        Sums do not depend on the order of detections, which equal scores leave open, and are weak where scores are.
        """
        rows = np.frombuffer(reply.data, "<f4").reshape(-1, COLUMNS)
        sums = np.zeros((len(self._annotations["categories"]), 5), dtype=np.float32)
        rows = rows[(rows[:, 6] >= 0) & (rows[:, 6] < len(sums))]
        weighted = rows[:, 5:6] * np.column_stack([np.ones(len(rows), dtype=np.float32), rows[:, 1:5]])
        np.add.at(sums, rows[:, 6].astype(int), weighted)
        return sums.reshape(-1)

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``mAP=37.283%``."""
        return f"mAP={scores['mAP']:.3f}%"

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return how far detections are from those of the other reply, on average, weighed by their scores.

        A detection is as far from another of its class as the side of the box, as a share of the image, or the score
        that moved most; from one of another class it is 1. The nearest counts. A reply is as far off as what it found,
        or as what it should have found, whichever is more. Another batch rounds differently, which now and then tips a
        weak box over the lowest score or the largest overlap: scores that sum to less than 1 are weighed as though they
        summed to 1.
        """
        if len(reply) % (COLUMNS * 4) or len(reference) % (COLUMNS * 4):
            return 1.0
        found, wanted = (np.frombuffer(data, "<f4").reshape(-1, COLUMNS) for data in (reply, reference))
        if not (np.isfinite(found).all() and len(np.unique([*found[:, 0], *wanted[:, 0]])) <= 1):
            return 1.0
        distances = np.abs(found[:, None, 1:6] - wanted[:, 1:6]).max(axis=2).clip(max=1)
        distances[found[:, None, 6] != wanted[:, 6]] = 1
        nearest = (distances.min(axis=axis, initial=1) for axis in (1, 0))
        return max(_weigh(each, rows[:, 5]) for each, rows in zip(nearest, (found, wanted), strict=True))

    def _found(self, reply: LoggedReply) -> np.ndarray:
        """Return (N, 7) float64: image id, x, y, width, height, score and class, in pixels of the original image."""
        reply.check_index(len(self._images))
        if len(reply.data) % (COLUMNS * 4):
            raise reply.size_error("rows of seven float32")
        rows = np.frombuffer(reply.data, "<f4").reshape(-1, COLUMNS)
        if not np.isfinite(rows).all():
            raise InvalidRunError(f"the reply to sample {reply.index} contains a value that is not a number.")
        image = self._images[reply.index]
        y1, x1, y2, x2 = (rows[:, 1:5].astype(float) * ([image["height"], image["width"]] * 2)).T
        ids = np.full(len(rows), image["id"], dtype=float)
        return np.stack([ids, x1, y1, x2 - x1, y2 - y1, rows[:, 5], np.trunc(rows[:, 6])], axis=1)


def _weigh(distances: np.ndarray, scores: np.ndarray) -> float:
    return float((distances * scores).sum() / max(1.0, scores.sum()))
