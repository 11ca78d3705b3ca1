"""From a volume to a label for each of its voxels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from mlbench import BatchProgram, Dim, Executable, Graph, ReplySpec
from mlbench.toolkit import host_array
from mlbench_unet3d.graphs import CLASSES
from mlbench_unet3d.sliding_window import Blend, gaussian_weights, window_starts

REPLY = ReplySpec(dtype="uint8", shape=(None, None, None))


class Segmentation(BatchProgram):
    """Runs the graph ``segmenter`` over windows, several in a call, also of different volumes.

    The reply to a sample is (D, H, W) uint8, on its own grid: 0 background, 1 kidney, 2 tumour. Besides replies, memory
    holds the sums of the one or two volumes that the windows of a call belong to.
    """

    reply = REPLY

    def __init__(self, *, image: str, logits: str, window: int, windows_per_call: int) -> None:
        """Store the names and sizes of the graph's tensors.

        Args:
            image: name of its input.
            logits: name of its output.
            window: voxels along each side.
            windows_per_call: how many windows it is given at a time; fewer at the end of a batch.
        """
        self._image = image
        self._logits = logits
        self._window = window
        self.windows_per_call = windows_per_call

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return the labels of each prepared volume, (D, H, W) float32 each."""
        replies: list[np.ndarray] = []
        weights = gaussian_weights(self._window)
        weighted = np.empty((CLASSES, *weights.shape), dtype=np.float32)  # in C order, whatever that of the logits is
        windows = self._windows(samples, replies)
        while part := list(islice(windows, self.windows_per_call)):
            outputs = graphs["segmenter"]({self._image: np.stack([window for window, _, _ in part])})
            for (_, start, blend), logits in zip(part, host_array(outputs[self._logits]), strict=True):
                blend.add(start, np.multiply(logits, weights, out=weighted))
        return replies

    def length(self, sample: np.ndarray) -> int:
        """Return the number of windows."""
        return len(window_starts(sample.shape, self._window))

    def _windows(
        self, samples: Sequence[np.ndarray], replies: list[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, tuple[int, int, int], Blend]]:
        """Yield each window (1, W, W, W) with its start and where it goes; begin a reply with each volume."""
        for volume in samples:
            blend = Blend(volume.shape, self._window)
            replies.append(blend.labels)
            for start in window_starts(volume.shape, self._window):
                place = tuple(slice(first, first + self._window) for first in start)
                yield volume[place][np.newaxis], start, blend


def segmentation(graph: Graph, *, windows_per_call: int) -> Segmentation:
    """Return the program that feeds a graph with so many windows at a time, or with as many as it takes."""
    (image,), (logits,) = graph.inputs, graph.outputs
    batch, window = image.shape[0], image.shape[-1]
    assert isinstance(window, int)
    most = batch.largest if isinstance(batch, Dim) else batch
    return Segmentation(
        image=image.name, logits=logits.name, window=window, windows_per_call=min(windows_per_call, most)
    )
