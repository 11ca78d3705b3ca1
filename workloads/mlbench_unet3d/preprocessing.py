"""From a CT scan to the network's input: one spacing, grey values around zero, sides that windows fill evenly.

Axes stay in the order of the file. All of it is untimed.

Source: MLPerf Inference v4.1, vision/medical_imaging/3d-unet-kits19, preprocess.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DARKEST, LIGHTEST = -79.0, 304.0
"""Hounsfield units; what lies beyond counts as these."""

MEAN = 101.0
DEVIATION = 76.9

PADDING_VALUE = -2.2
"""Padding of normalised images; lighter than the darkest voxel, which is -2.34."""


KIDNEY, TUMOUR = 1, 2
"""Labels; 0 is all else. A tumour is not a kidney."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The grid that scans are resampled to; the defaults are the official one."""

    spacing: tuple[float, float, float] = (1.6, 1.2, 1.2)
    """Distance of neighbouring voxels, mm."""
    window: int = 128
    """Voxels along each side of what the network takes; sides are at least as long, and multiples of half of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A case as its files hold it."""

    image: np.ndarray
    """(D, H, W) float32, Hounsfield units."""
    label: np.ndarray
    """(D, H, W) uint8: 0 background, 1 kidney, 2 tumour."""
    spacing: tuple[float, float, float]
    """Distance of neighbouring voxels, mm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisFit:
    """How one axis gets its final length; each pair is voxels in front, voxels behind."""

    repeated: tuple[int, int] = (0, 0)
    """The edge voxel, so often again."""
    dropped: tuple[int, int] = (0, 0)
    padded: tuple[int, int] = (0, 0)
    """With a constant."""


def prepare_case(scan: Scan, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Return image and label of a scan on the grid: (D, H, W) float32 and (D, H, W) uint8."""
    factors = zoom_factors(scan.spacing, grid.spacing)
    image, label = _zoom(scan.image, factors, order=1), _zoom(scan.label, factors, order=0)
    fits = [axis_fit(length, grid.window) for length in image.shape]
    return _fit(normalise(image), fits, PADDING_VALUE), _fit(label, fits, 0)


def zoom_factors(spacing: Sequence[float], wanted: Sequence[float]) -> tuple[float, ...]:
    """Return by how much each axis grows."""
    return tuple(found / target for found, target in zip(spacing, wanted, strict=True))


def axis_fit(length: int, window: int) -> AxisFit:
    """Return how an axis of this length becomes at least a window long, and a multiple of half a window.

    A short axis gets its edges repeated. Then less than half a stride too much is cut off, more is filled up.
    """
    if length < window:
        return AxisFit(repeated=_halves(window - length))
    stride = window // 2
    beyond = length % stride
    if beyond < stride / 2:
        return AxisFit(dropped=_halves(beyond))
    return AxisFit(padded=_halves(stride - beyond))


def _halves(number: int) -> tuple[int, int]:
    """Return the two halves of a number, the smaller first."""
    return number // 2, number - number // 2


def _zoom(volume: np.ndarray, factors: Sequence[float], *, order: int) -> np.ndarray:
    """Return a volume on a finer or coarser grid, first and last voxels on each other: linear or nearest."""
    from scipy.ndimage import zoom

    zoomed: np.ndarray = zoom(volume, factors, order=order, mode="constant", cval=volume.min(), grid_mode=False)
    return zoomed


def normalise(image: np.ndarray) -> np.ndarray:
    """Return Hounsfield units, float32, as the network sees them: from -2.34 to 2.64."""
    levels: np.ndarray = np.clip(image, np.float32(DARKEST), np.float32(LIGHTEST))
    levels -= np.float32(MEAN)
    levels /= np.float32(DEVIATION)
    return levels


def _fit(volume: np.ndarray, fits: Sequence[AxisFit], value: float) -> np.ndarray:
    """Return a volume with each axis brought to its final length."""
    repeated = np.pad(volume, [fit.repeated for fit in fits], mode="edge")
    kept = tuple(
        slice(fit.dropped[0], length - fit.dropped[1]) for fit, length in zip(fits, repeated.shape, strict=True)
    )
    return np.pad(repeated[kept], [fit.padded for fit in fits], constant_values=value)
