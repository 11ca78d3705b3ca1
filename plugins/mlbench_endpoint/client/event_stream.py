"""A reader of event streams, by the WHATWG standard (HTML, 9.2.6 "Interpreting an event stream").

It takes bytes as they arrive and gives whole events, within a limit on the size of one. None of the kept parsers does:
httpx-sse (0.4) wants decoded lines and splits them where a JSON text may hold a line separator, aiohttp-sse-client2
owns the session and reconnects, sse-starlette writes streams only, and none of them limits the size of an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mlbench_endpoint.client.failure import RequestFailed, quote
from mlbench_endpoint.client.oddities import Oddities

LONGEST_EVENT = 1 << 20
"""Most bytes of a line, and of the data of an event."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_NO_BLANK_LINE = "an event without a blank line after it"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event with data."""

    kind: str
    """Its type; empty: none was given."""
    data: bytes


@dataclass(slots=True)
class EventReader:
    """Splits a stream into events. Unlike in the standard, the end of the stream ends the last event too."""

    oddities: Oddities
    _rest: bytearray = field(default_factory=bytearray)
    _kind: str = ""
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    _is_begun: bool = False
    _is_after_return: bool = False
    """Whether the last piece ended with a carriage return, to which a line feed may belong."""

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events that end in a piece of the stream; raises `RequestFailed` for one that is too long."""
        if self._is_after_return:
            piece = piece.removeprefix(b"\n")
        self._is_after_return = piece.endswith(b"\r") or (self._is_after_return and not piece)
        if self._is_begun and self._is_idle and (datas := _whole_events(piece)):
            for data in datas:
                yield StreamEvent("", data)
            return
        self._rest += piece
        if not self._is_begun:
            if len(self._rest) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(bytes(self._rest)):
                return
            self._rest, self._is_begun = self._rest.removeprefix(_BYTE_ORDER_MARK), True
        *lines, rest = _LINE_END.split(self._rest) if b"\n" in piece or b"\r" in piece else (self._rest,)
        self._rest = bytearray(rest)
        for line in lines:
            yield from self._take(bytes(line))
        self._expect_end(len(self._rest))

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is left of earlier pieces."""
        return not (self._rest or self._data or self._kind or self._is_after_return)

    def end(self) -> Iterator[StreamEvent]:
        """Yield the last event, if no blank line ended it."""
        if self._rest:
            yield from self._take(bytes(self._rest))
        if self._data:
            self.oddities.count(_NO_BLANK_LINE)
            yield from self._dispatch()

    def _take(self, line: bytes) -> Iterator[StreamEvent]:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            yield from self._dispatch()
        elif name == b"data":
            if len(self._data) == 1 and _is_whole(self._data[0]):
                self.oddities.count(_NO_BLANK_LINE)
                yield from self._dispatch()
            self._expect_end(len(value))
            self._size += len(value) + 1
            self._data.append(value)
        elif name == b"event":
            self._kind = value.decode(errors="replace")
        # comments, ids, times to reconnect and unknown fields bring nothing

    def _dispatch(self) -> Iterator[StreamEvent]:
        data, kind = b"\n".join(self._data).strip(), self._kind
        self._data, self._kind, self._size = [], "", 0
        if data:
            yield StreamEvent(kind, data)

    def _expect_end(self, more: int) -> None:
        if self._size + more > LONGEST_EVENT:
            begin = quote(self._data[0] if self._data else self._rest)
            raise RequestFailed(f"the server sent an event of more than {LONGEST_EVENT} bytes: {begin}")


def _whole_events(piece: bytes) -> Sequence[bytes]:
    """Return the data of a piece of nothing but usual events, ``data: {...}``; empty for any other one."""
    if b"\r" in piece or not piece.startswith(b"data: ") or not piece.endswith(b"\n\n") or len(piece) > LONGEST_EVENT:
        return ()
    lines = piece[6:-2].split(b"\n\ndata: ")
    return () if any(b"\n" in line or not line.strip() for line in lines) else [line.strip() for line in lines]


def _is_whole(data: bytes) -> bool:
    """Return whether a line of data is an event by itself, so that the next line begins another one."""
    try:
        return data.strip() == b"[DONE]" or isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False
