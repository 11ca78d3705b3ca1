"""From prepared images to rows of detections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlbench import BatchProgram, Executable, ReplySpec
from mlbench.toolkit import host_array, stack
from mlbench_retinanet.anchors import anchors_by_level
from mlbench_retinanet.detection import Decoder, Detections, Selection
from mlbench_retinanet.graphs import IMAGE, LOGITS, OFFSETS, Architecture

LOWEST_SCORE = 0.05
"""Rows end before the first one below. Source: MLPerf Inference v4.1, openimages.py."""

COLUMNS = 7

REPLY = ReplySpec(dtype="float32", shape=(None, COLUMNS), may_be_empty=True)
"""A row per detection, the best first: sample index, ymin, xmin, ymax, xmax as shares of the image, score, class.

An image without detections has no row, and so no byte.
"""


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """A sample: an image ready for the network, and its index, which the reply repeats."""

    index: int
    pixels: np.ndarray
    """(3, height, width) float32 RGB from 0 to 1."""


class Detection(BatchProgram):
    """Looks at a batch in one call of the graph ``detector``; what follows the heads is done here, in fp32."""

    reply = REPLY

    def __init__(self, decoder: Decoder, image_hw: tuple[int, int]) -> None:
        """Store how detections are read from the graph's outputs, and the height and width of its input."""
        self._decoder = decoder
        self._image_hw = image_hw

    def run(self, samples: Sequence[PreparedImage], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return (detections, 7) float32 for each image."""
        outputs = graphs["detector"]({IMAGE: stack([each.pixels for each in samples])})
        logits, offsets = host_array(outputs[LOGITS]), host_array(outputs[OFFSETS])
        found = self._decoder.detections(logits, offsets)
        return [reply_rows(sample.index, each, self._image_hw) for sample, each in zip(samples, found, strict=True)]


def detection(architecture: Architecture, selection: Selection) -> Detection:
    """Return the program that goes with a network's dimensions."""
    return Detection(build_decoder(architecture, selection), architecture.image_hw)


def build_decoder(architecture: Architecture, selection: Selection) -> Decoder:
    """Return how detections are read from a network of these dimensions."""
    image_hw = architecture.image_hw
    levels = anchors_by_level(image_hw, architecture.map_shapes, architecture.anchor_bases)
    return Decoder(levels, image_hw=image_hw, selection=selection)


class WholeDetection(BatchProgram):
    """Calls the official ONNX file, which ends with detections, an image at a time: its batch is fixed to 1."""

    reply = REPLY

    def __init__(self, image_hw: tuple[int, int]) -> None:
        """Store the height and width of the graph's input."""
        self._image_hw = image_hw

    def run(self, samples: Sequence[PreparedImage], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return (detections, 7) float32 for each image."""
        return [self._rows(sample, graphs["detector"]) for sample in samples]

    def _rows(self, sample: PreparedImage, detector: Executable) -> np.ndarray:
        outputs = detector({IMAGE: sample.pixels[np.newaxis]})
        found = Detections(*(host_array(outputs[name]) for name in Detections._fields))
        return reply_rows(sample.index, found, self._image_hw)


def reply_rows(index: int, found: Detections, image_hw: tuple[int, int]) -> np.ndarray:
    """Return (N, 7) float32: the rows of a reply, up to the first detection with a score below 0.05."""
    is_low = found.scores < np.float32(LOWEST_SCORE)
    count = int(is_low.argmax()) if is_low.any() else len(is_low)
    height, width = image_hw
    rows = np.empty((count, COLUMNS), dtype=np.float32)
    rows[:, 0] = index
    rows[:, 1:5] = found.boxes[:count, [1, 0, 3, 2]] / np.array([height, width, height, width], dtype=np.float32)
    rows[:, 5] = found.scores[:count]
    rows[:, 6] = found.labels[:count]
    return rows
