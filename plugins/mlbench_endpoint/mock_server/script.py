"""A stream with faults, before it is sent: its events, their form on the wire, and its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from mlbench_endpoint.mock_server.answers import PlannedAnswer
from mlbench_endpoint.mock_server.messages import AnswerMessages
from mlbench_endpoint.mock_server.pacer import Piece
from mlbench_endpoint.mock_server.wire_message import WireMessage

EVENT_STREAM = "text/event-stream; charset=utf-8"


class StreamEnd(Enum):
    """The end of a stream."""

    WHOLE = "as HTTP wants it"
    CUT = "the connection is closed"
    RESET = "the connection is reset"
    HANG = "nothing more comes"


@dataclass(slots=True)
class MockEvent:
    """An event of a stream: a message, or lines as they are."""

    due_s: float
    message: WireMessage | None = None
    lines: str = ""

    @property
    def is_token(self) -> bool:
        """Whether it brings a part of the answer."""
        choices = self.message.get("choices") if self.message else None
        return bool(choices) and any(
            each.get("text") or any(value and name != "role" for name, value in each.get("delta", {}).items())
            for each in choices or ()
        )


@dataclass(slots=True, kw_only=True)
class StreamScript:
    """A stream that faults may change."""

    messages: AnswerMessages
    events: list[MockEvent]
    line_end: str = "\n"
    prefix: str = "data: "
    is_ascii: bool = True
    pieces: list[Piece] = field(default_factory=list)
    ending: StreamEnd = StreamEnd.WHOLE
    content_type: str = EVENT_STREAM
    headers: dict[str, str] = field(default_factory=dict)
    is_http10: bool = False

    @property
    def tokens(self) -> list[MockEvent]:
        """Events that bring a part of the answer."""
        return [event for event in self.events if event.is_token]

    def encode(self) -> None:
        """Make a piece of each event."""
        for event in self.events:
            lines = event.lines or f"{self.prefix}{json.dumps(event.message, ensure_ascii=self.is_ascii)}"
            text = f"{lines}\n\n".replace("\n", self.line_end)
            self.pieces.append((event.due_s, text.encode("utf-8", "surrogatepass")))


def events_of(messages: AnswerMessages, due_s: list[float]) -> Iterator[MockEvent]:
    """Yield the events of a faultless stream, given the due time of each token."""
    answer: PlannedAnswer = messages.answer
    if messages.asked.is_chat:
        yield MockEvent(due_s[0], messages.role())
    last = len(due_s) - 1
    for number, (word, id_) in enumerate(zip(answer.words, answer.ids, strict=True)):
        finish = answer.finish if number == last else None
        yield MockEvent(due_s[number], messages.token(f" {word}", [id_], finish))
    if messages.asked.wants_usage:
        yield MockEvent(due_s[-1], messages.last())
    yield MockEvent(due_s[-1], lines="data: [DONE]")
