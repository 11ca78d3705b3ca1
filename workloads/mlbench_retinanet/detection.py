"""From the network's logits and offsets to boxes with a class and a score, on the host in fp32.

Source: torchvision's RetinaNet and the training code behind the official checkpoints, which agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Gt, Lt

LARGEST_LOG_GROWTH = math.log(1000 / 16)
"""A box is at most so much larger than its anchor."""

_MOST_LOGITS = 2**22
"""Logits that are looked through at a time: of a batch at the full size each image has 31 million."""

_MOST_MOVED = 4000
"""Numbers in the boxes of an image up to which torchvision's ``batched_nms`` moves classes apart, on a CPU."""


class Detections(NamedTuple):
    """What was found in one image."""

    boxes: np.ndarray
    """(N, 4) float32: x1, y1, x2, y2 in pixels of the network's input."""
    scores: np.ndarray
    """(N,) float32."""
    labels: np.ndarray
    """(N,) int64."""


class Candidates(NamedTuple):
    """The best logits of some images, of each image in any order."""

    logits: np.ndarray
    """(images, N) float32."""
    places: np.ndarray
    """(images, N) int32: their flat positions among all (anchors, classes) of an image."""
    offsets: np.ndarray
    """(images, N, 4) float32: those of their anchors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which of the network's answers count as detections."""

    lowest_score: Annotated[float, Gt(0), Lt(1)] = 0.05
    """Only better ones do."""
    per_level: int = 1000
    """The best of each level go on."""
    largest_overlap: float = 0.5
    """Intersection over union of two boxes of one class; beyond it the one with the lower score goes."""
    at_most: int = 300
    """In one image."""


class Decoder:
    """Turns the outputs of the network into detections, those of some images together."""

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
        lowest = np.float32(selection.lowest_score)
        self._lowest_logit = np.float32(math.log(lowest / (1 - lowest)) - 1e-3)
        """Few of millions of logits pass it, so that few need a sigmoid."""

    def detections(self, logits: np.ndarray, offsets: np.ndarray) -> list[Detections]:
        """Return what was found in each image, the best first.

        A NaN among the scores comes first, and one among the boxes makes all of an image NaN: no detection would be a
        sound reply.

        Args:
            logits: (images, anchors, classes) float32.
            offsets: (images, anchors, 4) float32.
        """
        together = max(1, _MOST_LOGITS // logits[0].size)
        found: list[Detections] = []
        for start in range(0, len(logits), together):
            part = slice(start, start + together)
            found += self._of_some(logits[part], offsets[part])
        return found

    def detections_among(self, candidates: Candidates, classes: int) -> list[Detections]:
        """Return the same of images whose best logits were chosen elsewhere, at least as many as go on."""
        images = len(candidates.places)
        places = candidates.places + np.arange(images)[:, np.newaxis] * (len(self._anchors) * classes)
        places, logits = places.reshape(-1), candidates.logits.reshape(-1)
        order = places.argsort()
        order = order[~(logits[order] <= self._lowest_logit)]
        chosen, scores = self._chosen(places[order], logits[order], images, classes)
        order = order[chosen]
        rows, labels = np.divmod(places[order], classes)
        return self._by_image(Detections(candidates.offsets.reshape(-1, 4)[order], scores, labels), rows, images)

    def _of_some(self, logits: np.ndarray, offsets: np.ndarray) -> list[Detections]:
        images, classes, flat = len(logits), logits.shape[-1], logits.reshape(-1)
        places = np.flatnonzero(~(flat <= self._lowest_logit))  # not(<=) lets a NaN pass
        chosen, scores = self._chosen(places, flat[places], images, classes)
        rows, labels = np.divmod(places[chosen], classes)
        return self._by_image(Detections(offsets.reshape(-1, 4)[rows], scores, labels), rows, images)

    def _by_image(self, found: Detections, rows: np.ndarray, images: int) -> list[Detections]:
        """Return the detections of each image, given all with offsets as boxes, and their rows among all anchors."""
        moves, scores, labels = found
        boxes = self._boxes(rows % len(self._anchors), moves)
        bounds = np.searchsorted(rows, np.arange(images + 1) * len(self._anchors)).tolist()
        return [
            self._best_apart(Detections(boxes[start:end], scores[start:end], labels[start:end]))
            for start, end in pairwise(bounds)
        ]

    def _best_apart(self, found: Detections) -> Detections:
        """Return the best detections of an image that do not overlap."""
        if np.isnan(found.boxes).any():
            return Detections(np.full((1, 4), np.nan, np.float32), np.full(1, np.nan, np.float32), found.labels[:1])
        kept = _suppress(found, self._selection.largest_overlap)[: self._selection.at_most]
        return Detections(*(part[kept] for part in found))

    def _chosen(
        self, places: np.ndarray, logits: np.ndarray, images: int, classes: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best of each level of each image, as positions among ascending flat places, and their scores."""
        scores = 1 / (1 + np.exp(-logits))
        passing = np.flatnonzero(~(scores <= np.float32(self._selection.lowest_score)))
        places, scores = places[passing], scores[passing]
        firsts = np.arange(images)[:, np.newaxis] * len(self._anchors)
        ends = (firsts + self._ends).reshape(-1) * classes
        chosen = _best(scores, np.searchsorted(places, ends), self._selection.per_level)
        return passing[chosen], scores[chosen]

    def _boxes(self, places: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Return (N, 4) float32: the anchors at these places moved and stretched, within the image."""
        anchors = self._anchors[places]
        sizes = anchors[:, 2:] - anchors[:, :2]
        centres = anchors[:, :2] + np.float32(0.5) * sizes
        centres = moves[:, :2] * sizes + centres
        halves = np.float32(0.5) * np.exp(np.minimum(moves[:, 2:], np.float32(LARGEST_LOG_GROWTH))) * sizes
        boxes: np.ndarray = np.concatenate([centres - halves, centres + halves], axis=1).clip(0, self._largest)
        return boxes


def _best(scores: np.ndarray, ends: np.ndarray, count: int) -> np.ndarray:
    """Return positions of the best scores of each group, at most ``count`` of it, the best first.

    Equal scores of a group, and those with a NaN, come in the order in which torch's ``topk`` has them.

    Args:
        scores: (N,) float32, group after group.
        ends: of each group.
        count: of a group.
    """
    groups = np.searchsorted(ends, np.arange(len(scores)), side="right")
    order = np.lexsort((-scores, groups))
    ordered, own = scores[order], groups[order]
    begins = np.concatenate([[0], ends[:-1]])
    is_first = np.arange(len(scores)) - begins[own] < count
    is_unclear = np.isnan(ordered)
    is_unclear[1:] |= (ordered[1:] == ordered[:-1]) & (own[1:] == own[:-1])
    for group in np.unique(own[is_unclear]).tolist():
        start, end = int(begins[group]), int(ends[group])
        most = min(count, end - start)
        order[start : start + most] = start + _top(scores[start:end], most)
    chosen: np.ndarray = order[is_first]
    return chosen


def _top(scores: np.ndarray, count: int) -> np.ndarray:
    import torch

    best: np.ndarray = torch.from_numpy(scores).topk(count).indices.numpy()
    return best


def _suppress(found: Detections, largest_overlap: float) -> np.ndarray:
    """Return positions of the detections of an image that no better one of their class overlaps, the best first.

    As torchvision's ``batched_nms``, to the bit, in a tenth of its calls: it moves the boxes of each class to where no
    others are, unless they are many.
    """
    import torch
    from torchvision.ops import batched_nms

    boxes, scores, labels = found
    if not len(boxes) or boxes.size > _MOST_MOVED:
        kept = batched_nms(*map(torch.from_numpy, (boxes, scores, labels)), largest_overlap)
    else:
        moved = boxes + (labels.astype(np.float32) * (boxes.max() + np.float32(1)))[:, np.newaxis]
        kept = torch.ops.torchvision.nms(torch.from_numpy(moved), torch.from_numpy(scores), largest_overlap)
    positions: np.ndarray = kept.numpy()
    return positions
