"""Lengths of prompts and answers: one length, or lengths from a distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlbench import UsageError

if TYPE_CHECKING:
    import numpy as np

MOST_TOKENS = 10_000_000
"""Most tokens of a prompt or an answer; a larger number is probably a typo."""

FORMS = "512, uniform:128:1024 (least, most) or normal:512:64 (mean, standard deviation)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths in tokens."""

    longest: int
    """Largest length."""
    draw: Callable[[np.random.Generator, int], np.ndarray]
    """Returns a number of lengths, each from 1 to the longest."""


def parse_lengths(text: str, name: str) -> Lengths:
    """Return the lengths that a text describes.

    Args:
        text: in one of `FORMS`.
        name: of the setting, for the error.

    Raises:
        UsageError: it is not in one of these forms.
    """
    kind, *numbers = text.strip().split(":") if ":" in text else ("fixed", text.strip())
    values = [int(each) for each in numbers if each.isascii() and each.isdigit() and len(each) < 12]
    is_fitting = len(values) == len(numbers) and all(value <= MOST_TOKENS for value in values)
    match (kind if is_fitting else "", values):
        case "fixed", [length] if length:
            return Lengths(longest=length, draw=lambda rng, count: rng.integers(length, length + 1, count))
        case "uniform", [least, most] if 1 <= least <= most:
            return Lengths(longest=most, draw=lambda rng, count: rng.integers(least, most + 1, count))
        case "normal", [mean, spread] if mean:
            return _normal(mean, spread)
    raise UsageError(f"{name} is {text!r}.", hint=f"Give whole numbers of tokens: {FORMS}.")


def _normal(mean: int, spread: int) -> Lengths:
    """Return normally distributed lengths, cut at four standard deviations and at 1."""
    longest = mean + 4 * spread
    return Lengths(
        longest=longest, draw=lambda rng, count: rng.normal(mean, spread, count).round().clip(1, longest).astype(int)
    )
