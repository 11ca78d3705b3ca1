"""Real handwritten digits, in two parts: scikit-learn's copy of the UCI test set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SEED = 20240724
VALIDATION_SOURCES = 497


@dataclass(frozen=True, slots=True)
class Digits:
    """Handwritten digits: pixels (N, 8, 8) float32 in 0 .. 1, and which digit each is."""

    pixels: np.ndarray
    labels: np.ndarray

    def __getitem__(self, part: np.ndarray) -> Digits:
        return Digits(self.pixels[part], self.labels[part])

    def __len__(self) -> int:
        return len(self.labels)


def validation_and_training_digits() -> tuple[Digits, Digits]:
    """Return the two parts of a seeded permutation of the 1,797 digits."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    digits = Digits((bunch.images / 16).astype(np.float32), bunch.target)
    order = np.random.default_rng(SEED).permutation(len(digits))
    return digits[order[:VALIDATION_SOURCES]], digits[order[VALIDATION_SOURCES:]]
