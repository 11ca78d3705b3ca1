"""The mini data: real handwritten digits, enlarged, each in one colour on a ground of another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mlbench_stable_diffusion_xl.digits import COLOURS, WORDS, Motif

from mlbench_recipes.handwritten_digits import Digits

SIZE = 32
"""Pixels along each side of a picture."""
SMALLEST, LARGEST = 24, 28
"""Pixels along each side of the square that a digit is enlarged to."""
DIMMEST = 0.85
"""The least share of its brightness that a colour has."""


def draw(motifs: list[Motif], digits: Digits, rng: np.random.Generator) -> np.ndarray:
    """Return a picture of each motif, (N, 32, 32, 3) uint8 RGB, each after a digit drawn at random."""
    return np.stack([_picture(motif, digits, rng) for motif in motifs])


def random_motifs(count: int, rng: np.random.Generator) -> Iterator[Motif]:
    """Yield motifs drawn at random."""
    for _ in range(count):
        figure, ground = rng.choice(len(COLOURS), 2, replace=False).tolist()
        yield Motif(digit=int(rng.integers(len(WORDS))), figure=figure, ground=ground)


def _picture(motif: Motif, digits: Digits, rng: np.random.Generator) -> np.ndarray:
    import cv2

    source = digits.pixels[rng.choice(np.flatnonzero(digits.labels == motif.digit))]
    size = int(rng.integers(SMALLEST, LARGEST + 1))
    top, left = rng.integers(SIZE - size + 1, size=2).tolist()
    ink = np.zeros((SIZE, SIZE, 1), dtype=np.float32)
    enlarged = cv2.resize(source, (size, size), interpolation=cv2.INTER_CUBIC)
    ink[top : top + size, left : left + size, 0] = enlarged.clip(0, 1)
    colours = np.array(list(COLOURS.values()), dtype=np.float32)
    figure, ground = colours[[motif.figure, motif.ground]] * rng.uniform(DIMMEST, 1, (2, 1))
    picture: np.ndarray = (ink * figure + (1 - ink) * ground).round().astype(np.uint8)
    return picture
