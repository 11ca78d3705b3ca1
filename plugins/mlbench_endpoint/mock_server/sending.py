"""Sends answers: in one piece, as a stream, or as a stream with faults."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from aiohttp import web

from mlbench_endpoint.mock_server.counts import MockCounts
from mlbench_endpoint.mock_server.faults import MockFault
from mlbench_endpoint.mock_server.messages import AnswerMessages
from mlbench_endpoint.mock_server.pacer import PacedStream, Pacer, Piece
from mlbench_endpoint.mock_server.script import EVENT_STREAM, StreamEnd, StreamScript, events_of
from mlbench_endpoint.mock_server.wire_message import WireMessage

DueTimes = Callable[[int], float]
"""Returns when a token is due, given its number, by `time.monotonic`."""


@dataclass(frozen=True, slots=True)
class AnswerSender:
    """Sends answers when their tokens are due."""

    pacer: Pacer
    counts: MockCounts

    async def send_whole(
        self, messages: AnswerMessages, faults: Sequence[MockFault], due: DueTimes
    ) -> web.StreamResponse:
        """Answer in one piece, when the last token is due."""
        count = len(messages.answer.ids)
        piece = (due(count - 1), b"")
        await self.pacer.send(PacedStream(iter([piece]), None))
        self.counts.answer_tokens += count
        return whole_response(messages.body(), faults)

    async def send_stream(
        self, request: web.BaseRequest, messages: AnswerMessages, faults: Sequence[MockFault], due: DueTimes
    ) -> web.StreamResponse:
        """Answer in pieces.

        Raises:
            ConnectionError: the client has left.
        """
        if not (transport := request.transport):
            raise ConnectionResetError
        if faults:
            script = make_script(messages, faults, [due(number) for number in range(len(messages.answer.ids))])
            self.counts.answer_tokens += len(messages.answer.ids)
            return await self._play(request, transport, script)
        response = await _begin(request, EVENT_STREAM, {})
        pieces = self._pieces(messages, due, is_chunked=response.chunked)
        await self.pacer.send(PacedStream(pieces, transport))
        await response.write_eof()
        return response

    def _pieces(self, messages: AnswerMessages, due: DueTimes, *, is_chunked: bool) -> Iterator[Piece]:
        """Yield the pieces of a faultless stream."""
        last_s, counts = 0.0, self.counts
        for number, data in enumerate(messages.encoded()):
            last_s = max(last_s, due(number))  # jitter never turns tokens round
            yield last_s, _framed(data) if is_chunked else data
            counts.answer_tokens += 1

    async def _play(
        self, request: web.BaseRequest, transport: asyncio.Transport, script: StreamScript
    ) -> web.StreamResponse:
        """Send a stream with faults."""
        response = None
        if script.is_http10:
            transport.write(f"HTTP/1.0 200 OK\r\nContent-Type: {script.content_type}\r\n\r\n".encode())
        else:
            response = await _begin(request, script.content_type, script.headers)
        is_chunked = bool(response and response.chunked)
        pieces = ((due_s, _framed(data) if is_chunked else data) for due_s, data in script.pieces)
        await self.pacer.send(PacedStream(pieces, transport))
        if response and script.ending is StreamEnd.WHOLE:
            await response.write_eof()
            return response
        if script.ending is StreamEnd.RESET:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        elif script.ending is not StreamEnd.HANG:
            transport.close()
        await asyncio.Event().wait()  # until the connection is gone
        raise ConnectionResetError


def whole_response(body: WireMessage, faults: Sequence[MockFault]) -> web.Response:
    """Return an answer in one piece, with its faults."""
    for fault in faults:
        if fault.message:
            fault.message(body)
    return web.json_response(body)


def make_script(messages: AnswerMessages, faults: Sequence[MockFault], due_s: list[float]) -> StreamScript:
    """Return a stream with its faults, stage by stage."""
    script = StreamScript(messages=messages, events=list(events_of(messages, due_s)))
    for fault in faults:
        if fault.message:
            for event in script.events:
                if event.message:
                    fault.message(event.message)
    for fault in faults:
        if fault.events:
            fault.events(script)
    script.encode()
    for fault in faults:
        if fault.pieces and script.pieces:  # else another fault left none
            fault.pieces(script)
    return script


def _framed(data: bytes) -> bytes:
    """Return a chunk of HTTP's transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _begin(request: web.BaseRequest, content_type: str, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-cache", **headers})
    if request.version >= (1, 1):
        response.enable_chunked_encoding()
    await response.prepare(request)
    return response
