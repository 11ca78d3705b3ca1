"""Draws abdomens at random, as a CT scanner shows them, and says where the kidneys and their tumours are.

Much that is not a kidney is as bright as one (vessels, spleen, bowel), and tumours are as bright as liver and bowel:
place, shape and surroundings have to tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlbench_unet3d.preprocessing import KIDNEY, TUMOUR, Scan

SLICE_MM = (3.0, 4.0, 5.0, 6.0)
"""Usual distances of slices."""

AIR = -1000
LUNG = -800
FAT = -90
GREY_STEP = 8
"""Stored grey values are multiples of it, well below the noise: files of half the size."""


def draw_scan(rng: np.random.Generator) -> Scan:
    """Return a scan of one abdomen; the first slice is the one nearest the head, the first row the front."""
    build = rng.uniform(0.78, 1.05)  # of the patient
    extent = (rng.uniform(255, 325) * (1.35 if rng.random() < 0.2 else 1), 222 * build, 318 * build)
    slice_mm, pixel_mm = float(rng.choice(SLICE_MM)), rng.uniform(2.8, 4.2)
    spacing = (slice_mm, pixel_mm, pixel_mm)
    shape = tuple(round(size / step) for size, step in zip(extent, spacing, strict=True))
    canvas = _Canvas(shape, spacing, build, rng)
    _draw_trunk(canvas, rng)
    _draw_organs(canvas, rng)
    kidneys = [_draw_kidney(canvas, side, rng) for side in (-1, 1)]
    for _ in range(rng.integers(1, 3)):
        _draw_tumour(canvas, kidneys[rng.integers(2)], rng)
    return Scan(image=canvas.scan(), label=canvas.label, spacing=spacing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ellipsoid:
    """A blob; places and radii in mm for a patient of usual build, from the middle of the scan: down, back, left."""

    centre: Sequence[float]
    radii: Sequence[float]
    tilt: float = 0.0
    """Angle of the long axis to the side, radians."""
    wobble: float = 0.0
    """How uneven its surface is, as a share of its radii."""

    def scaled(self, factor: float) -> _Ellipsoid:
        """Return the same blob, smaller or larger."""
        radii = [factor * radius for radius in self.radii]
        return _Ellipsoid(centre=self.centre, radii=radii, tilt=self.tilt, wobble=self.wobble)


class _Canvas:
    """A volume in the making."""

    def __init__(self, shape: Sequence[int], spacing: Sequence[float], build: float, rng: np.random.Generator) -> None:
        """Fill a volume with air.

        Args:
            shape: voxels along each axis.
            spacing: mm.
            build: size of the patient; 1 is usual.
            rng: for uneven surfaces and noise.
        """
        self.image = np.full(shape, AIR, dtype=np.float32)
        self.label = np.zeros(shape, dtype=np.uint8)
        self._rng = rng
        self._axes = [
            (np.arange(length) - (length - 1) / 2) * step / build for length, step in zip(shape, spacing, strict=True)
        ]
        self._unevenness = _smooth_noise(shape, rng)

    def fill(self, blob: _Ellipsoid, grey: float, label: int = 0, *, is_trunk: bool = False) -> None:
        """Draw a blob over what is there; but for the trunk itself, only inside the trunk."""
        region, inside = self._inside(blob)
        if not is_trunk:
            inside &= self.image[region] != AIR
        self.image[region][inside] = grey
        self.label[region][inside] = label

    def scan(self) -> np.ndarray:
        """Return what a scanner makes of it: blurred and noisy, but for the air."""
        from scipy.ndimage import gaussian_filter

        is_air = self.image == AIR
        image = gaussian_filter(np.where(is_air, FAT, self.image), 0.6)
        image += self._rng.normal(0, self._rng.uniform(20, 40), image.shape)
        image = GREY_STEP * np.round(image / GREY_STEP)
        return np.where(is_air, AIR, image).astype(np.float32)

    def _inside(self, blob: _Ellipsoid) -> tuple[tuple[slice, ...], np.ndarray]:
        """Return the box around a blob, and which of its voxels the blob holds."""
        reach = max(blob.radii[0], blob.radii[2]) if blob.tilt else 0.0
        region, offsets = [], []
        for axis, place, radius in zip(self._axes, blob.centre, blob.radii, strict=True):
            far = (1 + blob.wobble) * max(radius, reach)
            region.append(slice(*np.searchsorted(axis, [place - far, place + far])))
            offsets.append(axis[region[-1]] - place)
        down, back, left = np.meshgrid(*offsets, indexing="ij", sparse=True)
        along = np.cos(blob.tilt) * down + np.sin(blob.tilt) * left
        across = np.cos(blob.tilt) * left - np.sin(blob.tilt) * down
        distance = (along / blob.radii[0]) ** 2 + (back / blob.radii[1]) ** 2 + (across / blob.radii[2]) ** 2
        box = tuple(region)
        return box, distance < (1 + blob.wobble * self._unevenness[box]) ** 2


def _smooth_noise(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Return a volume that wanders slowly between -1 and 1."""
    from scipy.ndimage import zoom

    coarse = rng.uniform(-1, 1, [length // 8 + 2 for length in shape])
    factors = [length / before for length, before in zip(shape, coarse.shape, strict=True)]
    noise: np.ndarray = zoom(coarse, factors, order=1, mode="nearest", grid_mode=True)
    return noise


def _draw_trunk(canvas: _Canvas, rng: np.random.Generator) -> None:
    """Draw fat, what it encloses, the spine and the two large vessels."""
    endless = 1000.0
    trunk = _Ellipsoid(centre=(0, 0, 0), radii=(endless, 106, 152), wobble=0.03)
    canvas.fill(trunk, FAT, is_trunk=True)
    canvas.fill(trunk.scaled(rng.uniform(0.78, 0.92)), rng.uniform(25, 50))
    back = rng.uniform(52, 62)
    bone = rng.uniform(180, 320)
    canvas.fill(_Ellipsoid(centre=(0, back, 0), radii=(endless, 19, 23)), rng.uniform(40, 70))  # discs
    for down in np.arange(-240, 241, 33) + rng.uniform(-16, 16):
        canvas.fill(_Ellipsoid(centre=(down, back, 0), radii=(15, 22, 26), wobble=0.1), bone)
    aorta, cava = rng.uniform(130, 220), rng.uniform(90, 170)
    canvas.fill(_Ellipsoid(centre=(0, back - 32, rng.uniform(4, 14)), radii=(endless, 11, 11)), aorta)
    canvas.fill(_Ellipsoid(centre=(0, back - 32, rng.uniform(-26, -16)), radii=(endless, 10, 12)), cava)


def _draw_organs(canvas: _Canvas, rng: np.random.Generator) -> None:
    """Draw lungs, liver, spleen, loops of bowel, and some of them that look much like kidneys in the wrong place."""
    for side in (-1, 1):
        canvas.fill(_Ellipsoid(centre=_near(rng, (-215, 0, side * 75), 8), radii=(90, 70, 55)), LUNG)
    liver = _Ellipsoid(centre=_near(rng, (-75, -12, -70), 8), radii=(72, 66, 66), wobble=0.12)
    canvas.fill(liver, rng.uniform(85, 125))
    spleen = _Ellipsoid(centre=_near(rng, (-78, 28, 98), 8), radii=(46, 34, 24), tilt=0.2, wobble=0.12)
    canvas.fill(spleen, rng.uniform(100, 145))
    for _ in range(rng.integers(5, 10)):
        place = (rng.uniform(-10, 140), rng.uniform(-70, 0), rng.uniform(-95, 95))
        loop = _Ellipsoid(centre=place, radii=rng.uniform(14, 30, 3).tolist(), tilt=rng.uniform(-0.8, 0.8), wobble=0.15)
        canvas.fill(loop, rng.uniform(60, 170))
    for _ in range(rng.integers(2, 5)):
        is_low = rng.random() < 0.4
        place = (rng.uniform(95, 150), 36, rng.choice([-60, 60])) if is_low else (rng.uniform(-40, 120), -50, 0)
        loop = _Ellipsoid(
            centre=_near(rng, place, 15 if is_low else 35),
            radii=(rng.uniform(28, 50), rng.uniform(18, 28), rng.uniform(18, 28)),
            tilt=rng.uniform(-0.5, 0.5),
            wobble=0.08,
        )
        canvas.fill(loop.scaled(1.3), rng.uniform(-105, -80))
        canvas.fill(loop, rng.uniform(130, 200))


def _draw_kidney(canvas: _Canvas, side: int, rng: np.random.Generator) -> _Ellipsoid:
    """Draw a kidney in its fat, with a pelvis and sometimes a cyst, and return it; ``side`` is -1 right, 1 left."""
    centre = _near(rng, (12 if side < 0 else -4, 34, side * 62), 6)
    radii = (rng.uniform(46, 58), rng.uniform(23, 29), rng.uniform(22, 28))
    kidney = _Ellipsoid(centre=centre, radii=radii, tilt=side * rng.uniform(0.1, 0.35), wobble=0.08)
    canvas.fill(kidney.scaled(1.3), rng.uniform(-105, -80))
    canvas.fill(kidney, rng.uniform(130, 200), KIDNEY)
    hilum = (centre[0], centre[1] - 3, centre[2] - side * 0.5 * radii[2])
    canvas.fill(_Ellipsoid(centre=hilum, radii=(16, 8, 12)), rng.choice([FAT, 15]))
    if rng.random() < 0.3:
        size = rng.uniform(9, 18)
        canvas.fill(_Ellipsoid(centre=_on_surface(kidney, rng, 0.9), radii=[size] * 3), rng.uniform(0, 20), KIDNEY)
    return kidney


def _draw_tumour(canvas: _Canvas, kidney: _Ellipsoid, rng: np.random.Generator) -> None:
    """Draw a tumour that grows out of a kidney."""
    radii = rng.uniform(15, 32) * rng.uniform(0.85, 1.15, 3)
    tumour = _Ellipsoid(centre=_on_surface(kidney, rng, 0.9), radii=radii.tolist(), wobble=0.12)
    canvas.fill(tumour, rng.uniform(60, 110), TUMOUR)


def _near(rng: np.random.Generator, place: Sequence[float], spread: float) -> tuple[float, float, float]:
    """Return a place within ``spread`` mm of another, along each axis."""
    down, back, left = np.asarray(place) + rng.uniform(-spread, spread, 3)
    return float(down), float(back), float(left)


def _on_surface(blob: _Ellipsoid, rng: np.random.Generator, depth: float) -> list[float]:
    """Return a random place at this share of the way from a blob's centre to its surface, tilt aside."""
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    return [
        middle + depth * part * radius for middle, part, radius in zip(blob.centre, direction, blob.radii, strict=True)
    ]
