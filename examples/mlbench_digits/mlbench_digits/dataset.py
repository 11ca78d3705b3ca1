"""Scikit-learn's handwritten digits, as rows of 64 pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np

from mlbench import Dataset

TRAINING, HELD_OUT = slice(0, 1300), slice(1300, None)


def digits(part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (N, 64) float32 from 0 to 1, and which digit each is (N,)."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return (pixels[part] / 16).astype(np.float32), labels[part]


def calibration_inputs() -> Iterator[Mapping[str, np.ndarray]]:
    """Yield inputs for quantisation, from the digits that were trained on."""
    yield {"pixels": digits(TRAINING)[0][:128]}


class HeldOutDigits(Dataset):
    """The 497 digits of the test set; a sample is (64,) float32."""

    def __init__(self) -> None:
        self._pixels, self.labels = digits(HELD_OUT)
        self.count = self.performance_count = len(self.labels)

    @property
    def fingerprint(self) -> str:
        """A hash of pixels and labels."""
        return sha256(self._pixels.tobytes() + self.labels.astype("<i8").tobytes()).hexdigest()

    def load(self, indices: Sequence[int]) -> None:
        """Do nothing: all pixels together take 127 kB."""

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing."""

    def sample(self, index: int) -> np.ndarray:
        """Return the pixels of a digit."""
        return self._pixels[index]
