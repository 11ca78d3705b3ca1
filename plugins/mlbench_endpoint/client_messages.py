"""What the engine and the process with the client say to each other about requests: a JSON object a line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A request that is to be sent."""

    id: int
    fields: Mapping[str, Any]
    """Fields of the request's body that other requests may have otherwise."""
    limit: int
    """Tokens that its answer may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The first token of an answer came."""

    id: int
    first: Sequence[int] | str
    """Token ids, or the text that it came in."""
    at_ns: int
    """When this was said, CLOCK_MONOTONIC; likewise below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A whole answer came."""

    id: int
    answer: Sequence[int] | str
    """Token ids or text."""
    finish: str | None
    """Why the server ended it, in the protocol's words."""
    prompt_tokens: int | None
    """By the server's count, likewise the next; None: it gave none."""
    answer_tokens: int | None
    attempts: int
    sent_ns: int
    """When it was first sent, CLOCK_MONOTONIC."""
    first_ns: int
    """When its first token came; 0: together with the rest."""
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """No whole answer came."""

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
