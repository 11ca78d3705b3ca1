"""Puts messages together from the bytes of a connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from mlbench.execution.instances.messages import SIZES, Message, NoMessageError, check_sizes, decode_message

_ROOM_BYTES = 256 << 10
_MOST_HEADER_BYTES = 16 << 20
_MOST_ARRAY_BYTES = 4 << 30


class Inbox:
    """The bytes that have arrived, and the messages in them. For one thread.

    Small messages are cut out of one buffer, many of them for one call of the kernel; the arrays of a large one are
    received where they stay.
    """

    def __init__(self) -> None:
        self._room = bytearray(_ROOM_BYTES)
        self._begin = self._end = 0
        self._header = b""
        self._body: bytearray | None = None
        self._filled = 0

    def fill(self, line: socket.socket) -> bool:
        """Receive once; return False when the other side has closed.

        Raises:
            OSError: nothing can be received, or nothing has arrived.
        """
        if self._body is not None:
            got = line.recv_into(memoryview(self._body)[self._filled :])
            self._filled += got
            return bool(got)
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._begin:
            self._room[: self._end - self._begin] = self._room[self._begin : self._end]
            self._begin, self._end = 0, self._end - self._begin
        if self._end == len(self._room):  # a header as long as that
            self._room.extend(bytes(len(self._room)))
        got = line.recv_into(memoryview(self._room)[self._end :])
        self._end += got
        return bool(got)

    def messages(self) -> Iterator[Message]:
        """Yield the messages that are complete.

        Raises:
            NoMessageError: what has arrived is not the beginning of a message.
        """
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> Message | None:
        if self._body is None and not self._begin_body():
            return None
        assert self._body is not None
        if self._filled < len(self._body):
            return None
        body, self._body = self._body, None
        return decode_message(self._header, body)

    def _begin_body(self) -> bool:
        """Cut a header out of the buffer, and what has arrived of the arrays behind it; False: it is not whole yet."""
        begin, available = self._begin, self._end - self._begin
        if available < SIZES.size:
            return False
        header_bytes, body_bytes = check_sizes(
            self._room, begin, most_header_bytes=_MOST_HEADER_BYTES, most_array_bytes=_MOST_ARRAY_BYTES
        )
        if available < SIZES.size + header_bytes:
            return False
        begin += SIZES.size
        self._header = bytes(self._room[begin : begin + header_bytes])
        begin += header_bytes
        self._filled = min(body_bytes, self._end - begin)
        arrived = self._room[begin : begin + self._filled]
        self._begin = begin + self._filled
        if self._filled == body_bytes:
            self._body = arrived
            return True
        try:
            self._body = bytearray(body_bytes)
        except MemoryError:
            raise NoMessageError(f"it has {body_bytes} bytes") from None
        self._body[: self._filled] = arrived
        return True
