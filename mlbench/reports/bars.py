"""Bars made of characters."""

from __future__ import annotations

BAR_WIDTH = 24


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """Return a bar that is filled to a share from 0 to 1, in ASCII characters."""
    count = round(width * min(1.0, max(0.0, share)))
    return "#" * count + "-" * (width - count)
