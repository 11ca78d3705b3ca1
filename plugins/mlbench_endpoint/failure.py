"""Why a request failed, as text for the record."""

from __future__ import annotations

import json

from mlbench.toolkit import printable

LONGEST_REASON = 300

_KEY = "[API key]"


class RequestFailed(Exception):
    """A request ended without a complete answer; has the reason."""

    def __init__(self, reason: str, *, retry_after_s: int = 0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s
        """The delay that the server asks for (Retry-After)."""


def one_line(text: str, *, longest: int = LONGEST_REASON) -> str:
    """Return a text on one line, cut where it gets long, with control characters spelled out."""
    line = printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else line[:longest] + "..."


def without_key(text: str, key: str) -> str:
    """Return a text without the API key, also as JSON spells it. Call it before cutting the text."""
    if not key:
        return text
    return text.replace(key, _KEY).replace(json.dumps(key)[1:-1], _KEY)
