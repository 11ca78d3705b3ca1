"""Rows of unequal length in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below the number."""
    return -(-number // multiple) * multiple


def pad_rows(rows: Sequence[np.ndarray], *, length: int, value: float = 0) -> np.ndarray:
    """Return (len(rows), length): each row, then ``value`` up to ``length``; the dtype of the first row.

    Raises:
        ValueError: a row is longer than ``length``.
    """
    import numpy as np

    padded = np.full((len(rows), length), value, dtype=rows[0].dtype)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return padded
