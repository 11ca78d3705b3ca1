"""The settings of the null backend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """What can be set on the null backend."""

    delay_ms: float = 0
    """How long after its arrival a query is answered, by a language model: begins to be; 0: at once, on the thread that
    brings it."""
    token_ms: float = 0
    """A language model's time from one token to the next."""
    tokens: int = 0
    """A language model's answer has so many; 0: the fewest allowed."""
    most_tokens: int = 0
    """Lengths are drawn from ``tokens`` to this, a sample's own each time; 0: all are alike."""
