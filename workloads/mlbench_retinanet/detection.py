"""From the network's logits and offsets to boxes with a class and a score, on the host in fp32.

Source: torchvision's RetinaNet and the training code behind the official checkpoints, which agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

LARGEST_LOG_GROWTH = math.log(1000 / 16)
"""A box is at most so much larger than its anchor."""


class Detections(NamedTuple):
    """What was found in one image."""

    boxes: np.ndarray
    """(N, 4) float32: x1, y1, x2, y2 in pixels of the network's input."""
    scores: np.ndarray
    """(N,) float32."""
    labels: np.ndarray
    """(N,) int64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which of the network's answers count as detections."""

    lowest_score: float = 0.05
    """Only better ones do."""
    per_level: int = 1000
    """The best of each level go on."""
    largest_overlap: float = 0.5
    """Intersection over union of two boxes of one class; beyond it the one with the lower score goes."""
    at_most: int = 300
    """In one image."""


class Decoder:
    """Turns the outputs of the network into detections, an image at a time."""

    def __init__(self, levels: Sequence[np.ndarray], *, image_hw: tuple[int, int], selection: Selection) -> None:
        """Store where the network looks.

        Args:
            levels: the anchors of each level, (N, 4) float32: x1, y1, x2, y2 in pixels.
            image_hw: height and width of the network's input.
            selection: which answers count.
        """
        self._anchors = np.concatenate(levels)
        self._ends = np.cumsum([len(level) for level in levels])
        height, width = image_hw
        self._largest = np.array([width, height, width, height], dtype=np.float32)
        self._selection = selection

    def detections(self, logits: np.ndarray, offsets: np.ndarray) -> Detections:
        """Return what was found in an image, the best first.

        A NaN among the scores comes first, and one among the boxes makes all of it NaN: no detection would be a sound
        reply.

        Args:
            logits: (anchors, classes) float32.
            offsets: (anchors, 4) float32.
        """
        import torch
        from torchvision.ops import batched_nms

        places, scores = self._candidates(logits)
        anchors, labels = np.divmod(places, logits.shape[1])
        boxes = self._boxes(anchors, offsets)
        if np.isnan(boxes).any():
            return Detections(np.full((1, 4), np.nan, np.float32), np.full(1, np.nan, np.float32), labels[:1])
        kept = batched_nms(*map(torch.from_numpy, (boxes, scores, labels)), self._selection.largest_overlap).numpy()
        kept = kept[: self._selection.at_most]
        return Detections(boxes[kept], scores[kept], labels[kept])

    def _candidates(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return flat positions and scores of the best answers of each level."""
        lowest = np.float32(self._selection.lowest_score)
        flat = logits.reshape(-1)
        # few of millions of logits pass, so compare before the sigmoid; not(<=) lets a NaN pass
        places = np.flatnonzero(~(flat <= np.float32(math.log(lowest / (1 - lowest)) - 1e-3)))
        scores = 1 / (1 + np.exp(-flat[places]))
        passing = ~(scores <= lowest)
        places, scores = places[passing], scores[passing]
        bounds = np.searchsorted(places, [0, *(self._ends * logits.shape[1])])
        best = [_best(scores, start, end, self._selection.per_level) for start, end in pairwise(bounds.tolist())]
        chosen = np.concatenate(best)
        return places[chosen], scores[chosen]

    def _boxes(self, places: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return (N, 4) float32: the anchors at these places moved and stretched, within the image."""
        anchors, moves = self._anchors[places], offsets[places]
        sizes = anchors[:, 2:] - anchors[:, :2]
        centres = anchors[:, :2] + np.float32(0.5) * sizes
        centres = moves[:, :2] * sizes + centres
        halves = np.float32(0.5) * np.exp(np.minimum(moves[:, 2:], np.float32(LARGEST_LOG_GROWTH))) * sizes
        boxes: np.ndarray = np.concatenate([centres - halves, centres + halves], axis=1).clip(0, self._largest)
        return boxes


def _best(scores: np.ndarray, start: int, end: int, count: int) -> np.ndarray:
    """Return the positions from ``start`` to ``end`` of the best scores, at most ``count``, the best first."""
    import torch

    best: np.ndarray = torch.from_numpy(scores[start:end]).topk(min(count, end - start)).indices.numpy()
    return start + best
