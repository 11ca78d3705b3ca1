"""Remarks on a run of a server, as sentences, from its statistics in the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlbench_endpoint.client.lag import explain_late_tail
from mlbench_endpoint.client.token_count import BY_CHUNKS, BY_SERVER

_MUCH = 0.5
"""Share of a processor from which on a reader should know of the client's."""


def counted_by(engine: Mapping[str, Any]) -> str:
    """Return who counted tokens: ``server``, ``chunks`` or ``tokenizer``."""
    return str(engine.get("counted_by", BY_SERVER))


def remarks_on(engine: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader of a run's numbers should know, given its statistics (``engine`` of the record)."""
    if counted_by(engine) == BY_CHUNKS:
        yield "each chunk is counted as a token, so tokens and times per token are those of chunks"
    if retried := engine.get("retried"):
        yield f"{retried} requests were sent again; their times count from the first sending"
    if oddities := engine.get("oddities"):
        yield "oddities: " + ", ".join(f"{name} {_times(number)}" for name, number in oddities.items())
    yield from engine.get("remarks", ())
    unknown = engine.get("unknown", {})
    for reason in dict.fromkeys(unknown.values()):
        names = [name for name in unknown if unknown[name] == reason]
        yield f"time {' and '.join(names)} unknown: {reason}"
    tails_ns = [row["p99"] for row in engine.get("from_sending", ()) if row["of"] == "first token"]
    if tails_ns and (late := explain_late_tail(engine.get("client", {}), tails_ns[0])):
        yield late
    if (share := engine.get("client", {}).get("processor_share", 0)) >= _MUCH:
        yield f"the client took {share:.0%} of a processor"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
