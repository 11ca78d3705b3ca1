"""A connection to a server that is kept open for one thread, with limits on waiting and on sizes.

For answers in one piece; `mlbench_endpoint.client.process` handles streams of tokens, in a separate process.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from mlbench_endpoint.client.access import Access
from mlbench_endpoint.client.advice import explain_refusal
from mlbench_endpoint.client.failure import LONGEST_QUOTE, RequestFailed

KEEP_ALIVE_S = 1.0
"""Longest idle time of a connection that is used again. Servers close idle ones, some after only 5 s, and would lose a
request sent at that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """Time limits of a server."""

    silence_s: float
    """Longest time without sending or taking a byte."""
    end_s: float
    """Deadline of the answer, of `time.monotonic`."""

    def left_s(self) -> float:
        """Return the time limit of the next byte.

        Raises:
            TimeoutError: the time is over.
        """
        left_s = self.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return min(self.silence_s, left_s)


class _TimedReader(io.RawIOBase):
    """Reads a socket, each time within the remaining time."""

    def __init__(self, sock: socket.socket, limits: TimeLimits) -> None:
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._limits = limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._limits.left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


@dataclass(frozen=True, slots=True)
class _TimedSocket:
    """The source of a response."""

    sock: socket.socket
    limits: TimeLimits

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self.sock, self.limits))


class Body:
    """The body of a successful response, which is read in pieces of known sizes."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def header(self, name: str) -> str | None:
        """Return a header of the response."""
        return self._response.headers.get(name)

    def read_into(self, buffer: memoryview) -> None:
        """Fill a buffer of bytes.

        Raises:
            RequestFailed: the body ends before.
        """
        done = 0
        while done < len(buffer):
            count = self._response.readinto(buffer[done:])
            if not count:
                raise RequestFailed(f"the server's answer ends {len(buffer) - done} bytes early")
            done += count

    def read_rest(self, most: int) -> bytes:
        """Return the rest of the body; raises `RequestFailed` if it has more than ``most`` bytes."""
        rest = bytearray()
        while len(rest) <= most:
            piece = self._response.read(min(most + 1 - len(rest), 1 << 20))
            if not piece:
                return bytes(rest)
            rest += piece
        raise RequestFailed(f"the server's answer has more than the {most} bytes that it may have there")


class Connection:
    """Sends requests to one server, one at a time; reopens its connection if it was lost or idle too long."""

    def __init__(self, target: str, *, access: Access, timeout_s: float) -> None:
        """Store the server's address; nothing is opened.

        Args:
            target: the URL under which the protocol's paths lie.
            access: headers of every request, and the check of certificates.
            timeout_s: longest time without sending or taking a byte.
        """
        parts = urlsplit(target)
        place, port = parts.hostname or "", parts.port
        self._http = (
            http.client.HTTPSConnection(place, port, timeout=timeout_s, context=access.tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(place, port, timeout=timeout_s)
        )
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept-Encoding": "identity", **access.headers}
        self._timeout_s = timeout_s
        self._used_s = 0.0

    def send(
        self,
        method: str,
        path: str,
        *,
        end_s: float,
        body: Sequence[bytes | memoryview] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Body:
        """Send a request, and return the body of its answer, which must be read before the next request.

        Args:
            method: ``GET`` or ``POST``.
            path: behind the target, without a slash before it.
            end_s: deadline of the answer, of `time.monotonic`.
            body: its pieces.
            headers: of this request.

        Raises:
            RequestFailed: the server answered with an error, which the message quotes, or compressed.
            OSError, http.client.HTTPException: the connection failed, or took too long.
        """
        limits = TimeLimits(silence_s=self._timeout_s, end_s=end_s)
        self._open(limits)
        size = sum(len(memoryview(piece).cast("B")) if len(piece) else 0 for piece in body)
        sent = {**self._headers, **(headers or {}), **({"Content-Length": str(size)} if body else {})}
        self._http.response_class = lambda sock, *rest, **named: http.client.HTTPResponse(  # type: ignore[assignment]
            _TimedSocket(sock, limits),  # type: ignore[arg-type]
            *rest,
            **named,
        )
        try:
            self._http.request(method, f"{self._path}/{path}", body=body or None, headers=sent)
        except (BrokenPipeError, ConnectionResetError):
            if not body:
                raise  # else the server may have answered before it was sent all
        response = self._http.getresponse()
        self._used_s = time.monotonic()
        self._expect_success(response, path)
        return Body(response)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._http.close()

    def _open(self, limits: TimeLimits) -> None:
        if time.monotonic() - self._used_s > KEEP_ALIVE_S:
            self.close()
        self._http.timeout = limits.left_s()
        if self._http.sock is None:
            self._http.connect()
        self._http.sock.settimeout(limits.left_s())

    def _expect_success(self, response: http.client.HTTPResponse, path: str) -> None:
        """Raise `RequestFailed` with the server's message, unless the response is a success and uncompressed."""
        if response.status != HTTPStatus.OK:
            explanation = response.read(LONGEST_QUOTE)
            raise explain_refusal(response.status, response.headers.get, f"{self._path}/{path}", explanation)
        if (encoding := response.headers.get("Content-Encoding", "identity").lower()) not in ("", "identity"):
            raise RequestFailed(f"the server compressed its answer ({encoding}), although it was not requested")
