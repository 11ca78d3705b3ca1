"""Numbers with units, as people read them, and values in the forms that other tools read."""

from __future__ import annotations

import math

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_STEPS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns"))


def duration(nanoseconds: float) -> str:
    """Return a time in the unit that suits it, three digits: ``12.3 ms``."""
    for size, unit in _STEPS:
        if abs(nanoseconds) >= size:
            return f"{three_digits(nanoseconds / size)} {unit}"
    return "0 ns"


def quantity(value: float | None, unit: str) -> str:
    """Return a measured value with its unit; nanoseconds become what suits them."""
    if value is None:
        return "no result"
    return duration(value) if unit == "ns" else f"{three_digits(value)} {unit}"


def three_digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent, thousands apart: ``12,345``, ``1.23``."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")  # 99.99 becomes 100.


def scaled(value: float, unit: str) -> str:
    """Return a large number with a decimal prefix: ``1.23 Top/s``, ``25.1 GB``."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{three_digits(value / size)} {prefix}{unit}"
    return f"{three_digits(value)} {unit}"


def clock(seconds: float) -> str:
    """Return a duration as a clock shows it: ``2:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def markdown_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table, on one line."""
    return " ".join(text.replace("|", r"\|").split())


def finite(value: object) -> object:
    """Return a value in which every float that is no number, which JSON cannot spell, is null."""
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
