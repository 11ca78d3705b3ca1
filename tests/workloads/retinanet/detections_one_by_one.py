"""Detections of one image with torch's and torchvision's own functions, level by level: what batches must equal."""

from itertools import pairwise

import numpy as np
import torch
from torchvision.ops import batched_nms


def detections_of(levels, image_hw, selection, logits, offsets):
    """Return boxes, scores and labels; (anchors, classes) logits and (anchors, 4) offsets, both float32."""
    classes, anchors = logits.shape[1], np.concatenate(levels)
    lowest = np.float32(selection.lowest_score)
    places, scores = [], []
    for start, end in pairwise([0, *np.cumsum([len(level) for level in levels])]):
        own = 1 / (1 + np.exp(-logits[start:end].reshape(-1)))
        passing = np.flatnonzero(~(own <= lowest))
        best = torch.from_numpy(own[passing]).topk(min(selection.per_level, len(passing))).indices.numpy()
        places.append(start * classes + passing[best])
        scores.append(own[passing[best]])
    anchor, labels = np.divmod(np.concatenate(places), classes)
    scores = np.concatenate(scores)
    sizes = anchors[anchor, 2:] - anchors[anchor, :2]
    centres = offsets[anchor, :2] * sizes + (anchors[anchor, :2] + np.float32(0.5) * sizes)
    growth = np.exp(np.minimum(offsets[anchor, 2:], np.float32(np.log(1000 / 16))))
    halves = np.float32(0.5) * growth * sizes
    height, width = image_hw
    boxes = np.concatenate([centres - halves, centres + halves], axis=1)
    boxes = boxes.clip(0, np.array([width, height, width, height], np.float32))
    kept = batched_nms(*map(torch.from_numpy, (boxes, scores, labels)), selection.largest_overlap)
    kept = kept[: selection.at_most].numpy()
    return boxes[kept], scores[kept], labels[kept]
