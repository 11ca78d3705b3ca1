"""Sends the pieces of all streams at their due times, and counts how late it was.

One heap holds the next piece of each stream, and one timer waits for the first of them: a timer per token would cost
more than the token.
"""

from __future__ import annotations

import asyncio
import itertools
import select
import selectors
from collections.abc import Iterator
from heapq import heappop, heappush, heapreplace
from time import monotonic

from mlbench_endpoint.mock_server.lateness import Lateness

Piece = tuple[float, bytes]
"""A due time by `time.monotonic` in seconds, and the bytes to send then."""

_MOST_AT_ONCE = 256
"""Pieces that are sent before the loop looks at its connections again."""


class PreciseSelector(selectors.EpollSelector):
    """Waits to the microsecond: epoll's own time limit is in whole milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return ready files, after the time limit in seconds at the latest."""
        if timeout is None or timeout > 0:
            select.select([self.fileno()], [], [], timeout)
        return super().select(0)


class PacedStream:
    """A stream of pieces; ``done`` is set when the last one is sent, or it is dropped."""

    def __init__(self, pieces: Iterator[Piece], transport: asyncio.WriteTransport | None) -> None:
        """Take the pieces, and the connection that gets them; None: they are only waited for."""
        self.done = asyncio.get_running_loop().create_future()
        self._pieces = pieces
        self._transport = transport
        self._piece = b""
        self.due_s: float | None = None
        self.advance()

    def advance(self) -> None:
        """Take the next piece, of which there may be none."""
        following = next(self._pieces, None)
        if following is None:
            self.drop()
        else:
            self.due_s, self._piece = following

    def send(self) -> None:
        """Send the piece that is due, and take the next; where the client has hung up, drop them."""
        if self._transport and self._transport.is_closing():  # a write would only be logged
            self.drop()
            return
        if self._transport:
            self._transport.write(self._piece)
        self.advance()

    def drop(self) -> None:
        """Send nothing more."""
        self.due_s = None
        if not self.done.done():
            self.done.set_result(None)


class Pacer:
    """Sends the pieces of streams at their due times."""

    def __init__(self) -> None:
        self.lateness = Lateness()
        self._heap: list[tuple[float, int, PacedStream]] = []
        self._numbers = itertools.count()  # so that streams are never compared
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = float("inf")

    @property
    def streams(self) -> int:
        """Number of streams that have pieces left."""
        return len(self._heap)

    async def send(self, stream: PacedStream) -> None:
        """Send a stream to its end; a cancellation drops the rest."""
        if stream.due_s is None:
            return
        heappush(self._heap, (stream.due_s, next(self._numbers), stream))
        self._arm()
        try:
            await stream.done
        finally:
            stream.drop()

    def _arm(self) -> None:
        """Wait for the first piece."""
        if not self._heap or self._timer_s <= self._heap[0][0]:
            return
        if self._timer:
            self._timer.cancel()
        self._timer_s = self._heap[0][0]
        self._timer = self._loop.call_at(self._timer_s, self._send_due)

    def _send_due(self) -> None:
        self._timer, self._timer_s = None, float("inf")
        heap, add = self._heap, self.lateness.add
        for _ in range(_MOST_AT_ONCE):
            if not heap or heap[0][0] > (now_s := monotonic()):
                break
            due_s, number, stream = heap[0]
            if stream.due_s is None:  # its client has gone
                heappop(heap)
                continue
            stream.send()
            add(due_s, now_s)
            if stream.due_s is None:
                heappop(heap)
            else:
                heapreplace(heap, (stream.due_s, number, stream))
        self._arm()
