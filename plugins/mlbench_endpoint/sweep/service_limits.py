"""Limits that an answer must keep to count as good: ``ttft=500ms,tpot=30ms``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Self

from mlbench import UsageError
from mlbench.toolkit import parse_time_ns

_HINT = "Give it like ttft=500ms,tpot=30ms,e2e=5s,itl=50ms."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """Longest times of an answer in ns; None: any."""

    ttft: int | None = None
    """To the first token."""
    tpot: int | None = None
    """Per output token after the first."""
    itl: int | None = None
    """Between two chunks: the longest gap of an answer counts."""
    e2e: int | None = None
    """To the end."""

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the limits in a text; none in an empty one.

        Raises:
            UsageError: a limit has another name, is given twice, or is no time above 0 with a unit.
        """
        found: dict[str, int] = {}
        names = [each.name for each in fields(cls)]
        for part in text.split(",") if text.strip() else ():
            name, _, value = (each.strip() for each in part.partition("="))
            if name not in names:
                raise UsageError(f"the limit {part.strip()!r} is not one of {', '.join(names)}.", hint=_HINT)
            if name in found:
                raise UsageError(f"the limit {name} is given twice.", hint=_HINT)
            with suppress(ValueError):
                found[name] = parse_time_ns(value)
            if not found.get(name):
                raise UsageError(f"the limit {part.strip()!r} has no time above 0 in us, ms or s.", hint=_HINT)
        return cls(**found)

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) is not None for each in fields(self))
