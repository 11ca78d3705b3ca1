"""The settings of the null backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

Milliseconds = Annotated[float, Ge(0), Le(1e9)]
Tokens = Annotated[int, Ge(0), Le(1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """Options of the null backend."""

    delay_ms: Milliseconds = 0
    """Time from arrival to the answer of a query, in milliseconds; for a language model to its first token. 0: at once,
    on the calling thread."""
    token_ms: Milliseconds = 0
    """A language model's time from one token to the next, in milliseconds."""
    service_ms: Milliseconds = 0
    """Mean time of a sample in a queue that answers one after another, in milliseconds; times are log-normal, and come
    before all other delays. 0: no queue."""
    service_spread: Annotated[float, Ge(0), Le(3)] = 0.3
    """With ``service_ms``: standard deviation of the logarithm of a time."""
    service_wobble: Annotated[float, Ge(0), Le(0.5)] = 0
    """With ``service_ms``: standard deviation of the speed from run to run, as a share."""
    tokens: Tokens = 0
    """Tokens in a language model's answer; 0: the fewest allowed."""
    most_tokens: Tokens = 0
    """Longest answer: lengths are random from ``tokens`` to this, always the same for a sample; 0: all have
    ``tokens``."""
