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
    service_ms: Milliseconds = 0
    """Before all else: how long a sample takes on average in a queue that takes one after another, in milliseconds; the
    times are log-normal. 0: there is no queue."""
    service_spread: Annotated[float, Ge(0), Le(3)] = 0.3
    """With ``service_ms``: the standard deviation of the logarithm of a time."""
    service_wobble: Annotated[float, Ge(0), Le(0.5)] = 0
    """With ``service_ms``: the standard deviation of the speed from run to run, as a share."""
    tokens: Tokens = 0
    """Tokens in a language model's answer; 0: the fewest allowed."""
    most_tokens: Tokens = 0
    """Lengths are drawn from ``tokens`` to this, a sample's own each time; 0: all are alike."""
