"""Whether a transfer moves: a clock that every byte passes, from the first of an answer's headers on."""

from __future__ import annotations

import functools
import http.client
import io
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field

STALL_S = 60.0
"""A connection that sends nothing for so long is given up, and asked again for the rest."""

SLOWEST_BYTES_PER_S = 1024
"""A server that sends less of a file in `STALL_S` stalls as well: a byte now and then would keep it for ever."""


class StalledError(TimeoutError):
    """A server sends too little in too long a time."""


@dataclass(slots=True)
class ProgressClock:
    """Looks at the bytes of a file that come in each window of time; all that comes before them has one window."""

    window_s: float
    now: Callable[[], float] = time.monotonic
    _bytes: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin the first window."""
        self._began = self.now()

    def count(self, size_bytes: int) -> None:
        """Count bytes of the file."""
        self._bytes += size_bytes

    def check(self) -> None:
        """Raise `StalledError` at the end of a window in which too few bytes came."""
        passed_s = self.now() - self._began
        if passed_s < self.window_s:
            return
        if self._bytes < SLOWEST_BYTES_PER_S * self.window_s:
            raise StalledError(f"the server sent {self._bytes or 'nothing'} of it in {passed_s:.0f} s")
        self._bytes, self._began = 0, self.now()


class ClockedHandler(urllib.request.HTTPHandler):
    """Opens unprotected connections that a clock watches."""

    def __init__(self, clock: ProgressClock) -> None:
        super().__init__()
        self._connection = _watched(http.client.HTTPConnection, clock)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open one, as the library asks."""
        return self.do_open(self._connection, req)


class SecureClockedHandler(urllib.request.HTTPSHandler):
    """Opens protected connections that a clock watches."""

    def __init__(self, clock: ProgressClock) -> None:
        self._secure_context = ssl.create_default_context()
        super().__init__(context=self._secure_context)
        self._connection = _watched(http.client.HTTPSConnection, clock)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open one, as the library asks."""
        return self.do_open(self._connection, req, context=self._secure_context)


def _watched(connection: type[http.client.HTTPConnection], clock: ProgressClock) -> type[http.client.HTTPConnection]:
    """Return a kind of connection whose answers pass a clock."""
    return type("WatchedConnection", (connection,), {"response_class": functools.partial(_WatchedResponse, clock)})


class _WatchedResponse(http.client.HTTPResponse):
    def __init__(self, clock: ProgressClock, sock: socket.socket, **how: object) -> None:
        super().__init__(sock, **how)  # type: ignore[arg-type]
        self.fp.close()
        self.fp = io.BufferedReader(_WatchedStream(sock.makefile("rb", buffering=0), clock))


class _WatchedStream(io.RawIOBase):
    def __init__(self, stream: io.RawIOBase, clock: ProgressClock) -> None:
        self._stream, self._clock = stream, clock

    def readable(self) -> bool:
        return True

    def readinto(self, block: memoryview) -> int | None:  # type: ignore[override]
        self._clock.check()
        return self._stream.readinto(block)

    def close(self) -> None:
        self._stream.close()
        super().close()
