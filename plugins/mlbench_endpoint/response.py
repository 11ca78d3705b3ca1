"""The body of an HTTP response as JSON messages, within limits: a server may send anything, endlessly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import aiohttp

from mlbench_endpoint.failure import LONGEST_REASON, RequestFailed

LONGEST_LINE = 1 << 20
"""Most bytes of a line in a stream."""

LONGEST_BODY = 1 << 24
"""Most bytes of an answer, streamed or not, with everything around its tokens."""

EVENT_STREAM = "text/event-stream"

_LONGEST_WAIT_DIGITS = 9

_EXPLANATION_S = 5.0
"""Longest wait for the body of an error response."""


async def messages(response: aiohttp.ClientResponse, *, is_stream: bool) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of events, or the only one of a plain answer.

    Raises:
        RequestFailed: the response is not in the requested form, too long, or not JSON.
    """
    if (response.content_type == EVENT_STREAM) is not is_stream:
        wanted = "a stream of events" if is_stream else "a plain answer"
        raise RequestFailed(f"the server sent {response.content_type}, not {wanted}: {await _beginning(response)}")
    if not is_stream:
        yield json_object(await read_body(response))
        return
    is_done = False
    async for line in _lines(response):
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        if data and is_done:
            raise RequestFailed(f"the server sent more after [DONE]: {_format_bytes(data)}")
        if data == b"[DONE]":
            is_done = True
        elif data:
            yield json_object(data)


async def expect_success(response: aiohttp.ClientResponse) -> None:
    """Raise `RequestFailed` with the server's message, unless the response is a success and uncompressed."""
    if response.status != HTTPStatus.OK:
        wait = response.headers.get("Retry-After", "")
        facts = {"Location": response.headers.get("Location", ""), "Retry-After": wait}
        told = "".join(f" ({name}: {value})" for name, value in facts.items() if value)
        is_number = wait.isascii() and wait.isdigit() and len(wait) <= _LONGEST_WAIT_DIGITS
        raise RequestFailed(
            f"the server answered {response.status}{told}: {await _beginning(response)}",
            retry_after_s=int(wait) if is_number else 0,
        )
    if (encoding := response.headers.get("Content-Encoding", "identity").lower()) not in ("", "identity"):
        raise RequestFailed(f"the server compressed its answer ({encoding}), although it was not requested")


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return a whole body; raise `RequestFailed` if it does not end."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        _expect_end(len(body))
    return bytes(body)


def json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that some bytes are.

    Raises:
        RequestFailed: they are not a JSON object.
    """
    try:
        found = json.loads(data.decode())
    except UnicodeDecodeError:
        raise RequestFailed(f"the server sent bytes that are not UTF-8: {_format_bytes(data)}") from None
    except (ValueError, RecursionError):  # of integers with thousands of digits, of arrays nested by the thousand
        raise RequestFailed(f"the server sent invalid JSON: {_format_bytes(data)}") from None
    if not isinstance(found, dict):
        raise RequestFailed(f"the server sent JSON that is not an object: {_format_bytes(data)}")
    return found


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they come."""
    size, rest = 0, bytearray()
    async for piece in response.content.iter_any():
        size += len(piece)
        _expect_end(size)
        rest += piece
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield bytes(line)
        if len(rest) > LONGEST_LINE:
            raise RequestFailed(f"the server sent a line of more than {LONGEST_LINE} bytes: {_format_bytes(rest)}")
    yield bytes(rest)


def _expect_end(size: int) -> None:
    if size > LONGEST_BODY:
        raise RequestFailed(f"the server sent more than {LONGEST_BODY} bytes")


async def _beginning(response: aiohttp.ClientResponse) -> str:
    """Return the beginning of a body, as much as fits into a message and arrives soon."""
    body = bytearray()
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_EXPLANATION_S):
            async for piece in response.content.iter_any():
                body += piece
                if len(body) >= 4 * LONGEST_REASON:
                    break
    return _format_bytes(body)


def _format_bytes(data: bytes | bytearray) -> str:
    return data[: 4 * LONGEST_REASON].decode(errors="replace")
