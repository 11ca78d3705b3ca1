"""Explains a damaged line of a detail log, so that a person can correct it."""

from __future__ import annotations

import json

from mlbench.system.documents import reason_of

_AROUND = 30
"""Characters that are shown before and behind a place."""


def describe_line(line: str, marker: str, error: Exception) -> str:
    """Return what is wrong with a line that could not be read, and its text at that place.

    Args:
        line: all of it.
        marker: with which a record begins.
        error: of the reader.
    """
    if (second := line.find(marker, 1)) > 0:
        return f"it contains two records, the second {_shown(line, second)}; two processes wrote into one line"
    if not isinstance(error, json.JSONDecodeError):
        return f"{reason_of(error)}: {line.strip()[: 2 * _AROUND]!r}"
    place = error.pos + len(marker)
    if error.msg.startswith("Invalid \\"):
        return f"it contains a backslash that is not a JSON escape, as in a Windows path, {_shown(line, place)}"
    if error.msg == "Extra data":
        return f"more follows behind its record, {_shown(line, place)}"
    if not line.endswith("\n") or place >= len(line.rstrip()):
        return f"it is cut off, {_shown(line, len(line.rstrip()))}"
    return f"{error.msg} {_shown(line, place)}"


def _shown(line: str, place: int) -> str:
    return f"at character {place + 1}: {line[max(0, place - _AROUND) : place + _AROUND].strip()!r}"
