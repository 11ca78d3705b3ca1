"""Times that people write, with a unit."""

from __future__ import annotations

import re

_UNITS_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}


def parse_time_ns(text: str) -> int:
    """Return a time in ns, 0 or more, from a text such as ``450ms`` or ``1.5 s``.

    Raises:
        ValueError: it is not a number with a unit; the message continues a sentence whose subject is the text.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([a-z]*)", text.strip())
    if not found:
        raise ValueError("is not a time")
    number, unit = found.groups()
    if unit not in _UNITS_NS:
        problem = f"has the unit {unit!r}" if unit else "has no unit"
        raise ValueError(f"{problem}; units are {', '.join(_UNITS_NS)}")
    return round(float(number) * _UNITS_NS[unit])
