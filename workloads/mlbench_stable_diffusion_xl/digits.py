"""The mini data: real handwritten digits in colour, and what a caption says about each.

The digits are scikit-learn's copy of the UCI test set, 8x8 pixels. A picture is one of them, enlarged, in one colour
on a ground of another; its caption names the digit and both colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

SEED = 20240724
VALIDATION_SOURCES = 497

SIZE = 32
"""Pixels along each side of a picture."""
SMALLEST, LARGEST = 24, 28
"""Pixels along each side of the square that a digit is enlarged to."""
DIMMEST = 0.85
"""The least share of its brightness that a colour has."""

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {
    "red": (225, 40, 40),
    "green": (40, 165, 60),
    "blue": (45, 75, 225),
    "yellow": (240, 215, 50),
    "purple": (145, 50, 175),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
TEMPLATES = (
    "a {figure} {digit} on a {ground} ground",
    "the digit {digit} in {figure}, painted on {ground} paper",
    "{ground} paper with a handwritten {figure} {digit}",
)


@dataclass(frozen=True, slots=True)
class Digits:
    """Handwritten digits: pixels (N, 8, 8) float32 in 0 .. 1, and which digit each is."""

    pixels: np.ndarray
    labels: np.ndarray

    def __getitem__(self, part: np.ndarray) -> Digits:
        return Digits(self.pixels[part], self.labels[part])


@dataclass(frozen=True, slots=True, kw_only=True)
class Motif:
    """What a picture shows: a digit, and places in `COLOURS`."""

    digit: int
    figure: int
    ground: int

    def caption(self, template: int) -> str:
        """Return it in words, one of three ways."""
        names = list(COLOURS)
        return TEMPLATES[template].format(digit=WORDS[self.digit], figure=names[self.figure], ground=names[self.ground])


def validation_and_training_digits() -> tuple[Digits, Digits]:
    """Return the two parts of a seeded permutation of the 1,797 digits."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    digits = Digits((bunch.images / 16).astype(np.float32), bunch.target)
    order = np.random.default_rng(SEED).permutation(len(digits.labels))
    return digits[order[:VALIDATION_SOURCES]], digits[order[VALIDATION_SOURCES:]]


def all_captions() -> list[tuple[Motif, str]]:
    """Return every motif in every wording: 1,260 captions."""
    motifs = [
        Motif(digit=digit, figure=figure, ground=ground)
        for digit, (figure, ground) in product(range(len(WORDS)), permutations(range(len(COLOURS)), 2))
    ]
    return [(motif, motif.caption(template)) for motif in motifs for template in range(len(TEMPLATES))]


def motif_of(caption: str) -> Motif:
    """Return what a caption asks for.

    Raises:
        ValueError: it is none of `all_captions`.
    """
    try:
        return _MOTIFS[caption]
    except KeyError:
        raise ValueError(f"no caption of a digit: {caption!r}") from None


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


_MOTIFS = {caption: motif for motif, caption in all_captions()}
