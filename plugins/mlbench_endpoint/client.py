"""The process that talks to servers, so that LoadGen's process parses no HTTP.

It reads and writes messages on a socket, one JSON object per line. The first message has the settings, the others are
requests; it answers ``ready`` or ``refused``, then the first token and the end of each request. Each request ends
within its time limits, whatever a server does. The process exits when the other side closes the socket.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from mlbench_endpoint.answer import Answer
from mlbench_endpoint.client_messages import Answered, Begun, Failed, RequestMessage, of_line, to_line
from mlbench_endpoint.client_settings import ClientSettings
from mlbench_endpoint.connection import KEEP_ALIVE_S
from mlbench_endpoint.failure import LONGEST_REASON, RequestFailed, one_line, without_key
from mlbench_endpoint.model_list import check_name, find_model
from mlbench_endpoint.response import expect_success, messages

LONGEST_MESSAGE = 1 << 26
"""Most bytes of a line: a prompt or an answer, with a margin."""


@dataclass(slots=True)
class Completion:
    """A request, and its progress."""

    number: int
    fields: Mapping[str, Any]
    limit: int
    """Most tokens of its answer."""
    attempts: int = 0
    target: str = ""
    """The server that got it last."""
    sent_ns: int = 0
    """Time of the first sending, CLOCK_MONOTONIC."""
    first_ns: int = 0
    """Time of the first token; 0: not yet."""

    @property
    def has_begun(self) -> bool:
        """Whether a first token was reported."""
        return bool(self.first_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Sends requests to targets in turn."""

    http: aiohttp.ClientSession
    settings: ClientSettings
    model: str
    """Name of the model on every target."""
    free: asyncio.Semaphore
    """Most concurrent requests."""
    report: AnswerLine
    turns: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, request: Completion) -> None:
        """Send a request when a place is free, and report its first token and its end."""
        wait_timeout_s = self.settings.options.wait_timeout_s
        try:
            async with asyncio.timeout(wait_timeout_s):
                await self.free.acquire()
        except TimeoutError:
            self.report.fail(request, f"not sent within {wait_timeout_s:g} s (backend.wait_timeout_s)")
            return
        try:
            await self._send(request)
        finally:
            self.free.release()

    async def _send(self, request: Completion) -> None:
        request.sent_ns = time.monotonic_ns()
        total_timeout_s = self.settings.options.total_timeout_s
        try:
            async with asyncio.timeout(total_timeout_s) as total:
                answer = await self._answer(request)
            self.report.complete(request, answer, is_text=self.settings.format.is_text)
        except Exception as error:  # whatever a server may send: a request that does not end would hang the run
            is_total = isinstance(error, TimeoutError) and total.expired()
            limit = f"no complete answer within {total_timeout_s:g} s (backend.total_timeout_s)"
            self.report.fail(request, limit if is_total else str(error) or type(error).__name__)

    async def _answer(self, request: Completion) -> Answer:
        """Return a complete answer, within the user's number of attempts; one that has begun is never repeated.

        Raises:
            Exception: raised by the last attempt.
        """
        options = self.settings.options
        while True:
            request.attempts += 1
            try:
                return await self._attempt(request)
            except Exception as error:  # see `ask`
                wait_s = error.retry_after_s if isinstance(error, RequestFailed) else 0
                if request.attempts > options.retries or request.has_begun or wait_s >= options.total_timeout_s:
                    raise
                await asyncio.sleep(wait_s)

    async def _attempt(self, request: Completion) -> Answer:
        """Ask the next target.

        Raises:
            RequestFailed: it refused, reported an error, answered as another model, stopped early, sent an invalid
                answer, or no token for too long.
            aiohttp.ClientError: the connection failed.
        """
        targets, timeout_s = self.settings.targets, self.settings.options.timeout_s
        request.target = targets[next(self.turns) % len(targets)]
        answer = Answer(self.settings.format, request.limit)
        try:
            async with asyncio.timeout(timeout_s) as silence:
                await self._read(request, answer, silence)
        except TimeoutError:
            if not silence.expired():
                raise
            reason = f"no token for {timeout_s:g} s (backend.timeout_s), after {len(answer.parts)} parts"
            raise RequestFailed(reason) from None
        answer.check()
        return answer

    async def _read(self, request: Completion, answer: Answer, silence: asyncio.Timeout) -> None:
        """Send the request and read the answer; each token restarts the time limit."""
        now_s, settings = asyncio.get_running_loop().time, self.settings
        body = {**settings.fields, **request.fields, "model": self.model}
        url = f"{request.target}/{settings.format.api.path}"
        async with self.http.post(url, json=body, allow_redirects=False) as response:
            await expect_success(response)
            async for message in messages(response, is_stream=settings.format.is_stream):
                part = answer.add(message)
                check_name(message, self.model)
                if part:
                    silence.reschedule(now_s() + settings.options.timeout_s)
                    if not request.has_begun:
                        self.report.begin(request, part)


@dataclass(slots=True)
class AnswerLine:
    """Sends results back. They never contain the API key."""

    writer: asyncio.StreamWriter
    key: str

    def begin(self, request: Completion, part: Sequence[int] | str) -> None:
        """Report a request's first token, or the text that contains it."""
        request.first_ns = time.monotonic_ns()
        self._send(Begun(id=request.number, first=part, at_ns=request.first_ns))

    def complete(self, request: Completion, answer: Answer, *, is_text: bool) -> None:
        """Report a complete answer."""
        joined = "".join(answer.parts) if is_text else list(itertools.chain.from_iterable(answer.parts))
        if isinstance(joined, str) and self.key and self.key in joined:
            self.fail(request, "the server answered with the API key")
            return
        self._send(
            Answered(
                id=request.number,
                answer=joined,
                finish=answer.finish,
                prompt_tokens=answer.prompt_tokens,
                answer_tokens=answer.answer_tokens,
                attempts=request.attempts,
                sent_ns=request.sent_ns,
                first_ns=request.first_ns,
                at_ns=time.monotonic_ns(),
            )
        )

    def fail(self, request: Completion, reason: str) -> None:
        """Report a request without a complete answer, with the reason."""
        told = one_line(without_key(f"{request.target}: {reason}", self.key))
        failed = Failed(id=request.number, reason=told, attempts=request.attempts, at_ns=time.monotonic_ns())
        self._send(failed)

    def greet(self, **greeting: str) -> None:
        """Send the first line: ``ready`` with the model's name, or ``refused`` with the reason."""
        self.writer.write(json.dumps(greeting).encode() + b"\n")

    def _send(self, message: Begun | Answered | Failed) -> None:
        self.writer.write(to_line(message))


def _session(timeout_s: float, key: str, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    """Return the HTTP session. It requests uncompressed bodies, so that a few bytes cannot expand to many."""
    return aiohttp.ClientSession(
        headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeout_s),
        auto_decompress=False,
        trust_env=False,  # a proxy would be measured too
    )


def _allow_connections() -> None:
    """Raise the limit of open files to the maximum for this user: each connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(line: socket.socket) -> None:
    _allow_connections()
    reader, writer = await asyncio.open_connection(sock=line, limit=LONGEST_MESSAGE)
    settings = ClientSettings.of_line(await reader.readline())
    options = settings.options
    key = os.environ.get(options.key_variable, "").strip()
    report = AnswerLine(writer, key)
    try:
        # Servers hang up after an error: no connection that may have seen one is used again.
        async with _session(options.timeout_s, key, aiohttp.TCPConnector(force_close=True)) as http:
            model = await find_model(http, settings.targets, options.model, settings.format.api)
    except Exception as error:  # whatever a server may send is reported in one line
        reason = without_key(str(error) or type(error).__name__, key)
        report.greet(refused=one_line(reason, longest=3 * LONGEST_REASON))
        await writer.drain()
        return
    report.greet(ready=one_line(without_key(model, key)))
    connector = aiohttp.TCPConnector(limit=options.most_requests, keepalive_timeout=KEEP_ALIVE_S)
    async with _session(options.timeout_s, key, connector) as http:
        free = asyncio.Semaphore(options.most_requests)
        client = Client(http=http, settings=settings, model=model, free=free, report=report)
        asking: set[asyncio.Task[None]] = set()
        while message := await reader.readline():
            asked = of_line(message)
            assert isinstance(asked, RequestMessage)
            request = Completion(asked.id, asked.fields, asked.limit)
            task = asyncio.create_task(client.ask(request))
            asking.add(task)
            task.add_done_callback(asking.discard)
        for task in asking:
            task.cancel()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, ConnectionError):
        asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1]))))
