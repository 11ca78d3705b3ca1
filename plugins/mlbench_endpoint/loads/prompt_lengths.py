"""Lengths of prompts and answers: one length, or lengths from a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import UsageError
from mlbench.toolkit import printable, read_text

if TYPE_CHECKING:
    import numpy as np

MOST_TOKENS = 10_000_000
"""Most tokens of a prompt or an answer; a larger number is probably a typo."""

FORMS = (
    "512, uniform:128:1024 (least, most), normal:512:64 (mean, standard deviation) "
    "or hist:128=0.5,1024=0.3,4096=0.2 (length=share)"
)

_HISTOGRAM = "hist:"
_MOST_BINS = 4096
_MOST_FILE_BYTES = 1 << 20


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
    if text.strip().startswith(_HISTOGRAM):
        return _histogram(text.strip().removeprefix(_HISTOGRAM).split(","), name)
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


def inline_histogram(text: str, name: str) -> str:
    """Return a text of lengths with the content of the file that ``hist:FILE`` names; other texts as they are.

    Lines of the file are ``length=share``, ``length,share`` or ``length share``; those that begin with # do not count.

    Raises:
        UsageError: a line is none of these.
        DataError: the file cannot be read.
    """
    source = text.strip().removeprefix(_HISTOGRAM)
    if not text.strip().startswith(_HISTOGRAM) or "=" in source:
        return text
    bins = []
    content = read_text(Path(source), what="histogram", limit_bytes=_MOST_FILE_BYTES)
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            each = "=".join(line.replace("=", " ").replace(",", " ").split())
            _histogram([each], f"{source}, line {number},")
            bins.append(each)
    if not bins:
        raise UsageError(f"{name}: {printable(source)} has no lengths.", hint="Give a length and its share per line.")
    return _HISTOGRAM + ",".join(bins)


def _histogram(bins: Sequence[str], name: str) -> Lengths:
    """Return lengths with given shares; the shares need not add up to 1."""
    lengths, shares = [], []
    for each in bins:
        length, _, share = each.partition("=")
        try:
            weight = float(share)
        except ValueError:
            weight = -1.0
        is_length = length.strip().isascii() and length.strip().isdigit() and len(length) < 12
        if not is_length or not 1 <= int(length) <= MOST_TOKENS or not 0 <= weight < math.inf:
            raise UsageError(f"{name} is {printable(each[:60])!r}.", hint=f"Give lengths in tokens: {FORMS}.")
        lengths.append(int(length))
        shares.append(weight)
    if len(lengths) > _MOST_BINS or not 0 < (whole := sum(shares)) < math.inf:
        raise UsageError(f"{name} has {len(lengths)} lengths with a sum of shares of {sum(shares):g}.", hint=FORMS)
    weights = [share / whole for share in shares]
    return Lengths(
        longest=max(length for length, share in zip(lengths, shares, strict=True) if share),
        draw=lambda rng, count: rng.choice(lengths, count, p=weights),
    )
