"""The body of an HTTP response as JSON messages, within limits: a server may send anything, endlessly."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from mlbench_endpoint.client.advice import explain_refusal
from mlbench_endpoint.client.event_stream import EventReader, StreamEvent
from mlbench_endpoint.client.failure import LONGEST_QUOTE, RequestFailed, quote
from mlbench_endpoint.client.json_object import json_object
from mlbench_endpoint.client.oddities import Oddities

LONGEST_BODY = 1 << 24
"""Most bytes of an answer, streamed or not, with everything around its tokens; more where it may have more tokens."""

_TOKEN_BYTES = 1024
"""Bytes of a token's event for which there is room in any case: usual ones have 200 to 300."""

EVENT_STREAM = "text/event-stream"

_JSON = "application/json"
_DONE = b"[DONE]"
_STREAM_BEGINS = (b"data", b"event", b":", b"id", b"retry", b"\xef\xbb\xbf")
_COMPRESSIONS = ("gzip", "x-gzip", "deflate")
_UNPACKED_AT_ONCE = 1 << 16

_EXPLANATION_S = 5.0
"""Longest wait for the body of an error response."""


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """A JSON object that a server sent, or the end of the answer."""

    fields: dict[str, Any] | None
    """None: the end, ``[DONE]``."""
    at_ns: int
    """Time when its last bytes were read, CLOCK_MONOTONIC."""


async def messages(
    response: aiohttp.ClientResponse, *, is_stream: bool, oddities: Oddities, tokens: int = 0
) -> AsyncIterator[ServerMessage]:
    """Yield the JSON objects of a stream of events and its ends, or the only one of a plain answer and its end.

    Args:
        response: of the server.
        is_stream: whether a stream was requested.
        oddities: count what is unusual.
        tokens: most tokens of the answer.

    Raises:
        RequestFailed: the response is not in the requested form, too long, or not JSON.
    """
    pieces = _pieces(response, oddities, max(LONGEST_BODY, _TOKEN_BYTES * tokens))
    begin = await anext(pieces, b"")
    if not _is_stream(response.content_type, begin, oddities, is_wanted=is_stream):
        body = begin + b"".join([piece async for piece in pieces])
        yield ServerMessage(json_object(body), at_ns := time.monotonic_ns())
        yield ServerMessage(None, at_ns)
        return
    reader = EventReader(oddities)
    async for piece in _prepend(begin, pieces):
        at_ns = time.monotonic_ns()
        for event in reader.feed(piece):
            for message in _messages_of(event, at_ns, oddities):
                yield message
    for event in reader.end():
        for message in _messages_of(event, time.monotonic_ns(), oddities):
            yield message


async def _prepend(begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for piece in pieces:
        yield piece


def _messages_of(event: StreamEvent, at_ns: int, oddities: Oddities) -> Iterator[ServerMessage]:
    """Yield the message of an event, if it has one."""
    if event.data == _DONE:
        yield ServerMessage(None, at_ns)
        return
    if event.kind == "error":
        raise RequestFailed(f"the server sent an error: {quote(event.data)}")
    if event.kind not in ("", "message"):
        oddities.count(f"an event named {event.kind!r}")
        if not event.data.startswith(b"{"):
            return
    yield ServerMessage(json_object(event.data), at_ns)


def _is_stream(kind: str, begin: bytes, oddities: Oddities, *, is_wanted: bool) -> bool:
    """Return whether a body is a stream of events, given its content type and its beginning."""
    if (kind == EVENT_STREAM) is is_wanted:
        return is_wanted
    start = begin.lstrip()
    if is_wanted and start and any(start.startswith(each) or each.startswith(start) for each in _STREAM_BEGINS):
        oddities.count(f"a stream of content type {kind}")
        return True
    if is_wanted and kind == _JSON:
        oddities.count("one JSON answer instead of a stream")
        return False
    wanted, sent = "a stream of events" if is_wanted else "a plain answer", quote(begin) or "no bytes"
    raise RequestFailed(f"the server sent {kind}, not {wanted}: {sent}")


async def expect_success(response: aiohttp.ClientResponse, oddities: Oddities | None = None) -> None:
    """Raise `RequestFailed` with the server's message, unless the response is a success; count an unusual one."""
    if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        url, body = str(response.url.with_query(None)), await _beginning(response)
        raise explain_refusal(response.status, response.headers.get, url, body)
    if response.status != HTTPStatus.OK and oddities:
        oddities.count(f"an answer under status {response.status}")


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return a whole body; raise `RequestFailed` if it does not end."""
    return b"".join([piece async for piece in _pieces(response, Oddities(), LONGEST_BODY)])


async def _pieces(response: aiohttp.ClientResponse, oddities: Oddities, longest: int) -> AsyncIterator[bytes]:
    """Yield a body as it comes, unpacked, and no more than the limit."""
    size, unpack = 0, _unpacking(response, oddities)
    async for piece in response.content.iter_any():
        for part in unpack(piece):
            size += len(part)
            if size > longest:
                raise RequestFailed(f"the server sent more than {longest} bytes")
            yield part


def _unpacking(response: aiohttp.ClientResponse, oddities: Oddities) -> Any:
    """Return a function from a piece of the body to its unpacked parts.

    Raises:
        RequestFailed: the body is compressed in another way than gzip or zlib.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return lambda piece: (piece,)
    if encoding not in _COMPRESSIONS:
        raise RequestFailed(f"the server compressed its answer ({encoding}), although it was not requested")
    oddities.count(f"an answer compressed with {encoding}, which was not requested")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header

    def unpack(piece: bytes) -> Iterator[bytes]:
        try:
            while piece:
                yield unpacker.decompress(piece, _UNPACKED_AT_ONCE)
                piece = unpacker.unconsumed_tail
        except zlib.error:
            raise RequestFailed(f"the server's answer is not {encoding}, as it says") from None

    return unpack


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """Return the beginning of a body, as much as fits into a message and arrives soon."""
    body = bytearray()
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_EXPLANATION_S):
            async for piece in response.content.iter_any():
                body += piece
                if len(body) >= LONGEST_QUOTE:
                    break
    return bytes(body)
