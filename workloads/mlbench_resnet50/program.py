"""From prepared images to class labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mlbench import BatchProgram, Executable, ReplySpec
from mlbench.toolkit import host_array, stack

BACKGROUND_CLASSES = 1
"""The official ONNX file counts from a class "background", which is not one of the 1,000."""

LabelReader = Callable[[np.ndarray], np.ndarray]
"""Makes (B, 1) float32 labels of a graph's output for B images."""


class Classification(BatchProgram):
    """Classifies a batch in one call of the graph ``classifier``; a reply is the label, as float32."""

    reply = ReplySpec(dtype="float32", shape=(1,))

    def __init__(self, *, image: str, output: str, labels: LabelReader) -> None:
        """Store the names and sizes of the graph's tensors.

        Args:
            image: name of its input.
            output: name of the output that decides the label.
            labels: reads labels from that output.
        """
        self._image = image
        self._output = output
        self._labels = labels

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return (B, 1) float32 labels for B prepared images, (3, size, size) float32 each."""
        outputs = graphs["classifier"]({self._image: stack(samples)})
        return self._labels(host_array(outputs[self._output]))


def labels_from_logits(logits: np.ndarray) -> np.ndarray:
    """Return (B, 1) float32: the most likely class of (B, classes) logits; NaN, which is not a label, if one is NaN."""
    best = logits.argmax(axis=1, keepdims=True)  # the first NaN, where there is one
    broken = np.isnan(np.take_along_axis(logits, best, axis=1))
    return np.where(broken, np.float32(np.nan), best.astype(np.float32))


def labels_from_classes(classes: np.ndarray) -> np.ndarray:
    """Return (B, 1) float32: labels of the (B,) classes the official ONNX file answers; background becomes -1."""
    return (classes - BACKGROUND_CLASSES).astype(np.float32)[:, np.newaxis]
