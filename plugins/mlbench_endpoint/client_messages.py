"""Messages about requests between the engine and the client's process: one JSON object per line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A request to send."""

    id: int
    fields: Mapping[str, Any]
    """Fields of the request's body that may differ between requests."""
    limit: int
    """Most tokens of its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The first token of an answer arrived."""

    id: int
    first: Sequence[int] | str
    """Token ids, or the text that contains it."""
    at_ns: int
    """Time of the message, CLOCK_MONOTONIC; likewise below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A complete answer arrived."""

    id: int
    answer: Sequence[int] | str
    """Token ids or text."""
    finish: str | None
    """Reason for its end, in the protocol's words."""
    prompt_tokens: int | None
    """Tokens of the prompt by the server's count; None: the server sent none. The next one likewise for the answer."""
    answer_tokens: int | None
    attempts: int
    sent_ns: int
    """Time of the first sending, CLOCK_MONOTONIC."""
    first_ns: int
    """Time of its first token; 0: together with the rest."""
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request ended without a complete answer."""

    id: int
    reason: str
    attempts: int
    at_ns: int


Message = RequestMessage | Begun | Answered | Failed

_KINDS = {kind.__name__: kind for kind in (RequestMessage, Begun, Answered, Failed)}


def to_line(message: Message) -> bytes:
    """Return a message as a line of JSON."""
    values = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    return json.dumps({"kind": type(message).__name__, **values}).encode() + b"\n"


def of_line(line: bytes) -> Message:
    """Return the message in a line that `to_line` made."""
    values = json.loads(line)
    kind: type[Message] = _KINDS[values.pop("kind")]
    return kind(**values)
