"""Why a request failed, as text for the record."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mlbench.toolkit import printable

LONGEST_REASON = 300

LONGEST_QUOTE = 4 * LONGEST_REASON
"""Most bytes of a server's explanation that are read: more than a reason holds, so that secrets are found in it."""

_KEY = "[API key]"


class RequestFailed(Exception):
    """A request ended without a complete answer; has the reason."""

    def __init__(self, reason: str, *, status: int = 0, advice: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status of a refusal; 0: it failed in another way."""
        self.advice = advice
        """What the user can do about it; empty: nothing general."""
        self.retry_after_s = retry_after_s
        """The delay that the server asks for (Retry-After); None: it asks for none."""


def one_line(text: str, *, longest: int = LONGEST_REASON) -> str:
    """Return a text on one line, cut where it gets long, with control characters spelled out."""
    line = printable(" ".join(text[: 4 * longest].split()))
    return line if len(line) <= longest else line[:longest] + "..."


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return a text without some secrets, also as JSON spells them. Call it before cutting the text."""
    for secret in secrets:
        text = text.replace(secret, _KEY).replace(json.dumps(secret)[1:-1], _KEY)
    return text


def quote(data: bytes | bytearray) -> str:
    """Return the beginning of some bytes as text."""
    return data[:LONGEST_QUOTE].decode(errors="replace")
