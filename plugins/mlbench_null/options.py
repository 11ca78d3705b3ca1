"""The settings of the null backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

Milliseconds = Annotated[float, Ge(0), Le(1e9)]
Tokens = Annotated[int, Ge(0), Le(1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """What can be set on the null backend."""

    delay_ms: Milliseconds = 0
    """How long after its arrival a query is answered, in milliseconds; of a language model: gets its first token. 0: at
    once, on the thread that brings it."""
    token_ms: Milliseconds = 0
    """A language model's time from one token to the next, in milliseconds."""
    tokens: Tokens = 0
    """Tokens in a language model's answer; 0: the fewest allowed."""
    most_tokens: Tokens = 0
    """Lengths are drawn from ``tokens`` to this, a sample's own each time; 0: all are alike."""
