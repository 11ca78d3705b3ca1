"""The order of a bisection: which version comes next, which run of which version, and which runs make a pair.

Versions are in order, the good end first; a place is a version's number, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum

NEIGHBOURS_WITHIN = timedelta(minutes=10)
"""A longer pause between two runs, and they are no pair."""


class VersionMark(StrEnum):
    """What is known of a version."""

    GOOD = "good"
    BAD = "bad"
    CANNOT_TELL = "cannot tell"
    SKIPPED = "skipped"


def next_place(marks: Mapping[int, VersionMark]) -> int | None:
    """Return the version to look at next: of those between the last good and the first bad one the middle one.

    Versions without a verdict are passed over, and their neighbours tried. None: there are no more.
    """
    between = suspects(marks)
    middle = (between.start - 1 + between.stop - 1) / 2
    return min(
        (place for place in between[:-1] if place not in marks), key=lambda place: abs(place - middle), default=None
    )


def suspects(marks: Mapping[int, VersionMark]) -> range:
    """Return the places after the last good version, up to and with the first bad one."""
    bad = min(place for place, mark in marks.items() if mark is VersionMark.BAD)
    return range(1 + max(place for place, mark in marks.items() if mark is VersionMark.GOOD and place < bad), bad + 1)


def pairs_among(order: Sequence[int | None], place: int) -> list[tuple[int, int]]:
    """Return the pairs of the good end and a version: their positions, the good end's first.

    Args:
        order: the places of all runs as they were made; None: a pause, over which no pair reaches.
        place: of the version.

    A run of the good end may be in pairs of two versions, of each in one: that of the version before it, and that of
    the one after it.
    """
    pairs, position = [], 0
    while position + 1 < len(order):
        one, other = order[position : position + 2]
        if {one, other} == {0, place}:
            pairs.append((position, position + 1) if one == 0 else (position + 1, position))
            position += 1
        position += 1
    return pairs


def next_run(order: Sequence[int | None], place: int) -> int:
    """Return the place whose run comes next, for a version that needs another pair: A B B A, as far as it goes."""
    last = order[-1] if order else None
    is_free = last in (0, place) and all(len(order) - 1 not in pair for pair in pairs_among(order, place))
    if is_free:
        return place if last == 0 else 0
    return place if last == place else 0
