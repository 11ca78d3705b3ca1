"""Limits of latencies that a user asks for: ``ttft=1s``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mlbench.errors import UsageError
from mlbench.toolkit.times import parse_time_ns

_SETTINGS = {"latency": "latency_limit_ms", "ttft": "ttft_limit_ms", "tpot": "tpot_limit_ms"}
LIMITS = tuple(_SETTINGS.values())
"""The settings, without their prefix ``load.``."""

_EXAMPLE = "Give it like ttft=1s, tpot=50ms or latency=10ms."


def settings_of_limits(limits: Iterable[str]) -> Mapping[str, float]:
    """Return the settings that ask for these limits.

    Raises:
        UsageError: one is of nothing that is judged, has no unit, or is not above 0; or one is given twice.
    """
    found: dict[str, float] = {}
    for text in limits:
        name, _, value = text.partition("=")
        if name not in _SETTINGS:
            raise UsageError(f"--limit {text!r} is not one of {', '.join(_SETTINGS)}.", hint=_EXAMPLE)
        key = f"load.{_SETTINGS[name]}"
        if key in found:
            raise UsageError(f"--limit {name} is given twice.")
        found[key] = _milliseconds(text, value)
    return found


def _milliseconds(text: str, value: str) -> float:
    try:
        time_ns = parse_time_ns(value)
    except ValueError as error:
        raise UsageError(f"--limit {text!r} {error}.", hint=_EXAMPLE) from None
    if not time_ns:
        raise UsageError(f"--limit {text!r} is not above 0.", hint=_EXAMPLE)
    return time_ns / 1e6
