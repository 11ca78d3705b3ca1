"""Mean average precision, as the official script computes it.

Source: MLPerf Inference v4.1, vision/classification_and_detection/tools/accuracy-openimages.py.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlbench import InvalidRunError, LoggedReply, Metric, Target
from mlbench_retinanet.program import COLUMNS

REFERENCE_MAP = 37.55
"""Percent; the only one, whichever official checkpoint runs. Source: MLPerf Inference v4.1, submission_checker.py."""

TARGET_SHARE = 0.99

SAME_PLACE = 0.02
"""How far a side of a box may be from the accuracy run's, as a share of the image."""

SAME_SCORE = 0.1
"""How far a score may be from the accuracy run's."""

WITHOUT_PARTNER = 0.25
"""How much of a reply, weighed by its scores, may be missing from the other."""

WEAK = 0.15
"""A sum of scores that may always be missing: three detections just above the lowest score."""


class MeanAveragePrecision(Metric):
    """Scores ``mAP`` in percent, COCO's, over the images that were answered, and ``mAP50``, at an overlap of 0.5."""

    def __init__(self, annotations: Mapping[str, Any], reference: float) -> None:
        """Store what to compare with.

        Args:
            annotations: the official file's contents, in COCO form; the sample with index i is its i-th image.
            reference: mAP of the reference implementation, percent.
        """
        self.targets = (Target(score="mAP", reference=reference, lower=reference * TARGET_SHARE, name="99"),)
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

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``mAP=37.283%``."""
        return f"mAP={scores['mAP']:.3f}%"

    def agrees(self, reply: bytes, reference: bytes) -> bool:
        """Tell whether both replies are to one sample and find the same.

        A detection is found again if the other reply has one of its class with a like box and a like score. Another
        batch rounds differently, which now and then tips a box over the lowest score or the largest overlap: so a
        quarter of what either reply found, weighed by its scores, may be missing from the other, or a few weak ones.
        """
        if len(reply) % (COLUMNS * 4) or len(reference) % (COLUMNS * 4):
            return False
        found, wanted = (np.frombuffer(data, "<f4").reshape(-1, COLUMNS) for data in (reply, reference))
        if not (np.isfinite(found).all() and len(np.unique([*found[:, 0], *wanted[:, 0]])) <= 1):
            return False
        are_alike = (
            (found[:, None, 6] == wanted[:, 6])
            & (np.abs(found[:, None, 5] - wanted[:, 5]) <= SAME_SCORE)
            & (np.abs(found[:, None, 1:5] - wanted[:, 1:5]) <= SAME_PLACE).all(axis=2)
        )
        return _is_found(found[:, 5], are_alike.any(axis=1)) and _is_found(wanted[:, 5], are_alike.any(axis=0))

    def _found(self, reply: LoggedReply) -> np.ndarray:
        """Return (N, 7) float64: image id, x, y, width, height, score and class, in pixels of the original image."""
        if not 0 <= reply.index < len(self._images):
            raise InvalidRunError(f"sample {reply.index} was answered, but there are {len(self._images)} samples.")
        size = len(reply.data)
        if size % (COLUMNS * 4):
            raise InvalidRunError(f"the reply to sample {reply.index} has {size} bytes, not rows of seven float32.")
        rows = np.frombuffer(reply.data, "<f4").reshape(-1, COLUMNS)
        if not np.isfinite(rows).all():
            raise InvalidRunError(f"the reply to sample {reply.index} holds a value that is not a number.")
        image = self._images[reply.index]
        y1, x1, y2, x2 = (rows[:, 1:5].astype(float) * ([image["height"], image["width"]] * 2)).T
        ids = np.full(len(rows), image["id"], dtype=float)
        return np.stack([ids, x1, y1, x2 - x1, y2 - y1, rows[:, 5], np.trunc(rows[:, 6])], axis=1)


def _is_found(scores: np.ndarray, has_partner: np.ndarray) -> bool:
    """Tell whether enough detections have a partner in the other reply, weighed by their scores."""
    return bool(scores[~has_partner].sum() <= max(WITHOUT_PARTNER * scores.sum(), WEAK))
