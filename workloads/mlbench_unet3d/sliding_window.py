"""A volume in overlapping windows: where they lie, how much each counts, and how their logits become labels.

Source: MLPerf Inference v4.1, vision/medical_imaging/3d-unet-kits19, inference_utils.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np

from mlbench_unet3d.graphs import CLASSES

OCTANTS = 8
"""Blocks of half a window in a window: two along each side, the last axis fastest."""

DEVIATION_SHARE = 0.125
"""The gaussian's standard deviation, as a share of the window."""


def window_starts(shape: Sequence[int], window: int) -> list[tuple[int, int, int]]:
    """Return the first voxel of each window, half a window apart; the last axis varies fastest."""
    down, back, left = (range(0, length - window + 1, window // 2) for length in shape)
    return list(product(down, back, left))


@cache
def gaussian_weights(window: int) -> np.ndarray:
    """Return (W, W, W) float32, 1 at most: the cube root of a gaussian, as the reference has it, and so a flatter one.

    Computed once; not to be written to.
    """
    distances = (np.arange(window) - (window - 1) / 2) / (DEVIATION_SHARE * window)
    line = np.exp(-0.5 * distances**2)
    cube = np.cbrt(line[:, None, None] * line[:, None] * line)
    weights: np.ndarray = (cube / cube.max()).astype(np.float32)
    weights.flags.writeable = False
    return weights


class Blend:
    """The labels of one volume, from the logits of its windows, which come in the order of `window_starts`.

    Only the sums of the slices that windows still lie over are kept: as soon as the windows move on, the slices that
    they leave become labels. The reference divides the sums by the sum of weights first, which changes no argmax.
    """

    def __init__(self, shape: tuple[int, ...], window: int) -> None:
        """Begin a volume of this shape; sides are multiples of half a window."""
        self.labels = np.empty(shape, dtype=np.uint8)
        """(D, H, W); whole after the last window."""
        self._window = window
        self._stride = window // 2
        self._sums = np.zeros((2, CLASSES, self._stride, *shape[1:]), dtype=np.float32)
        self._top = 0
        self._left = len(window_starts(shape, window))

    def add(self, start: tuple[int, int, int], weighted: np.ndarray) -> None:
        """Add a window's logits, already weighted: (3, W, W, W) float32.

        Raises:
            ValueError: a logit is not a number.
        """
        top, back, left = start
        while self._top < top:
            self._finish_upper_half()
        place = (..., slice(back, back + self._window), slice(left, left + self._window))
        upper, lower = self._halves()
        upper[place] += weighted[:, : self._stride]
        lower[place] += weighted[:, self._stride :]
        self._left -= 1
        if not self._left:
            self._finish_upper_half()
            self._finish_upper_half()

    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of the upper and the lower slices of the windows at hand; the two change places."""
        parity = self._top // self._stride % 2
        return self._sums[parity], self._sums[1 - parity]

    def _finish_upper_half(self) -> None:
        upper, _ = self._halves()
        most_likely(upper, out=self.labels[self._top : self._top + self._stride])
        upper[:] = 0
        self._top += self._stride


def most_likely(sums: np.ndarray, out: np.ndarray) -> None:
    """Write the class with the largest sum, the first of equals, and leave the largest sums in ``sums[0]``.

    Args:
        sums: (3, ...) float32; overwritten.
        out: (...) uint8.

    Raises:
        ValueError: a sum is not a number.
    """
    background, kidney, tumour = sums
    np.greater(kidney, background, out=out.view(bool))
    np.maximum(background, kidney, out=background)
    np.maximum(out, (tumour > background).view(np.uint8) << 1, out=out)
    np.maximum(background, tumour, out=background)
    if np.isnan(background.max()):  # a maximum with a NaN is NaN
        raise ValueError("NaN among the logits")
