"""Messages about requests between the engine and the client's process: one JSON object per line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessage:
    """A further turn of a session."""

    content: str
    """The user's message."""
    think_ns: int
    """Time between the end of the last answer and this request."""
    given: str | None
    """The last answer in the history; None: the server's own."""
    fields: Mapping[str, Any]
    """Fields of its request's body, without the messages."""
    limit: int
    """Most tokens of its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A request to send, or a session of several, one after another."""

    id: int
    fields: Mapping[str, Any]
    """Fields of the request's body that may differ between requests."""
    limit: int
    """Most tokens of its answer."""
    due_ns: int = 0
    """When to send it, CLOCK_MONOTONIC; 0: at once."""
    turns: tuple[TurnMessage, ...] = ()
    """Turns after the first one; its messages grow by each answer."""


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
    turns_left: int = 0
    """Turns of the session that follow."""
    sent_ns: int
    """Time of the first sending, CLOCK_MONOTONIC."""
    first_ns: int
    """Time of its first token; 0: together with the rest."""
    at_ns: int
    asked_ns: int = 0
    """When this process got the request, or when it was due; 0: with the sending."""
    chunk_ns: Sequence[int] = ()
    """Times at which the chunks with text or tokens arrived, the first one at ``first_ns``; empty without a stream."""
    part_sizes: Sequence[int] = ()
    """Characters of each chunk, where answers are compared with those given alone; else empty."""
    oddities: Mapping[str, int] = field(default_factory=dict)
    """Deviations from the protocol that change neither text nor counts, by name, and how often each occurred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request ended without a complete answer."""

    id: int
    reason: str
    attempts: int
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPulse:
    """How the client's process kept up during a part of a second in which requests ran."""

    lags_ns: Sequence[int]
    """How late its event loop was, at regular times."""
    busy_ns: int
    """Its processor time."""
    wall_ns: int


Message = RequestMessage | Begun | Answered | Failed | ClientPulse

_KINDS = {kind.__name__: kind for kind in (RequestMessage, Begun, Answered, Failed, ClientPulse)}


def to_line(message: Message) -> bytes:
    """Return a message as a line of JSON."""
    values = {each.name: getattr(message, each.name) for each in dataclasses.fields(message)}
    if further := values.get("turns"):
        values["turns"] = [dataclasses.asdict(turn) for turn in further]
    return json.dumps({"kind": type(message).__name__, **values}).encode() + b"\n"


def of_line(line: bytes) -> Message:
    """Return the message in a line that `to_line` made."""
    values = json.loads(line)
    kind: type[Message] = _KINDS[values.pop("kind")]
    if "turns" in values:
        values["turns"] = tuple(TurnMessage(**each) for each in values["turns"])
    return kind(**values)
