"""Formats numbers with units for people, and values for other tools."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_MOST_DIGITS = 17
"""Significant digits of a double."""
_SECONDS_UP_TO, _MINUTES_UP_TO = 90, 90
TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))
"""Units of times in nanoseconds, the largest first."""


def duration(nanoseconds: float, digits: int = 3) -> str:
    """Return a time in the unit that suits it, three digits: ``12.3 ms``."""
    for size, unit in TIMES:
        if abs(nanoseconds) >= size:
            return f"{significant(nanoseconds / size, digits)} {unit}"
    return "0 ns"


def quantity(value: float | None, unit: str) -> str:
    """Return a measured value with its unit; nanoseconds and bytes become what suits them."""
    if value is None:
        return "no result"
    if unit == "bytes":
        return size(value)
    return duration(value) if unit == "ns" else f"{three_digits(value)} {unit}"


def three_digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent, thousands apart: ``12,345``, ``1.23``."""
    return significant(value, 3)


def significant(value: float, digits: int) -> str:
    """Return a number with this many significant digits and all digits before the point, thousands apart."""
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".rstrip(".")  # 99.99 becomes 100.


def tell_apart(
    value: float, others: Sequence[float], spell: Callable[[float, int], str], digits: int
) -> tuple[str, list[str]]:
    """Return a number and its limits, with enough digits to tell which is larger.

    Args:
        value: a score, a measured latency.
        others: its limits.
        spell: formats a number with this many digits.
        digits: fewest digits.
    """
    for enough in range(digits, digits + _MOST_DIGITS):
        shown, against = spell(value, enough), [spell(other, enough) for other in others]
        if all(shown != text or value == other for text, other in zip(against, others, strict=True)):
            break
    return shown, against


def with_prefix(value: float, unit: str) -> str:
    """Return a large number with a decimal prefix: ``1.23 Top/s``, ``25.1 GB``."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{three_digits(value / size)} {prefix}{unit}"
    return f"{three_digits(value)} {unit}"


def rough_time(seconds: float) -> str:
    """Return a duration in words, at least a second: ``1 s``, ``45 s``, ``14 min``, ``2 h 10 min``."""
    if seconds < _SECONDS_UP_TO:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < _MINUTES_UP_TO else f"{minutes // 60} h {minutes % 60} min"


def finite(value: object) -> object:
    """Return a value in which every NaN or infinity, which JSON lacks, is null."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number_of(count: int) -> str:
    """Return a count, thousands apart: ``1,024``."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 run``, ``12 runs``."""
    return f"{number_of(count)} {noun}{'' if count == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share with three digits: ``12.3 %``."""
    return f"{three_digits(100 * share)} %"


def size(bytes_: float) -> str:
    """Return an amount of memory in the unit that suits it: ``1.50 GiB``."""
    for step, unit in ((2**30, "GiB"), (2**20, "MiB")):
        if bytes_ >= step:
            return f"{three_digits(bytes_ / step)} {unit}"
    return f"{three_digits(bytes_ / 2**10)} KiB"
