"""The process that talks to servers, so that LoadGen's process parses no HTTP.

It reads and writes messages on a socket, one JSON object per line. The first message has the settings, the others are
requests; it answers ``ready`` or ``refused``, then the first token and the end of each request. Each request ends
within its time limits, whatever a server does. The process exits when the other side closes the socket.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from mlbench_endpoint.client.access import Access, request_url
from mlbench_endpoint.client.advice import advise_on
from mlbench_endpoint.client.answer import Answer
from mlbench_endpoint.client.connection import KEEP_ALIVE_S
from mlbench_endpoint.client.failure import LONGEST_REASON, RequestFailed, one_line
from mlbench_endpoint.client.lag import watch_lag
from mlbench_endpoint.client.messages import Answered, Begun, ClientPulse, Failed, RequestMessage, of_line, to_line
from mlbench_endpoint.client.model_list import find_model
from mlbench_endpoint.client.oddities import Oddities
from mlbench_endpoint.client.response import expect_success, messages
from mlbench_endpoint.client.retry import wait_before_retry_s
from mlbench_endpoint.client.settings import ClientSettings
from mlbench_endpoint.client.vector_answer import VectorAnswer

LONGEST_MESSAGE = 1 << 26
"""Most bytes of a line: a prompt or an answer, with a margin."""

_LONGEST_HEADER = 1 << 16
"""Most bytes of a header: gateways send policies and cookies of many kilobytes."""

_TELLING = 12
"""Fewest characters of a secret that no answer contains by chance."""

_SLACK_S, _SLACK = 1.0, 0.05
"""A silence ends at most so many seconds, and such a share of its time limit, later than that."""


@dataclass(slots=True)
class Completion:
    """A request, and its progress."""

    number: int
    fields: Mapping[str, Any]
    limit: int
    """Most tokens of its answer."""
    asked_ns: int = field(default_factory=time.monotonic_ns)
    """When this process got it, CLOCK_MONOTONIC."""
    turns_left: int = 0
    """Turns of its session that follow."""
    attempts: int = 0
    target: str = ""
    """The server that got it last."""
    sent_ns: int = 0
    """Time of the first sending, CLOCK_MONOTONIC."""
    first_ns: int = 0
    """Time of the first token; 0: not yet."""
    chunk_ns: list[int] = field(default_factory=list)
    """Arrival of each chunk with text or tokens."""

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

    async def ask(self, asked: RequestMessage) -> None:
        """Send a request or a session when it is due and a place is free, and report first tokens and ends."""
        request = Completion(asked.id, asked.fields, asked.limit, turns_left=len(asked.turns))
        if asked.due_ns:
            request.asked_ns = asked.due_ns
            await _sleep_until(asked.due_ns)
        wait_timeout_s = self.settings.options.wait_timeout_s
        try:
            async with asyncio.timeout(wait_timeout_s):
                await self.free.acquire()
        except TimeoutError:
            self.report.fail(request, f"not sent within {wait_timeout_s:g} s (backend.wait_timeout_s)")
            return
        if asked.turns and not asked.due_ns:
            request.asked_ns = time.monotonic_ns()  # sessions at once wait for a place as no user does
        try:
            await self._converse(request, asked)
        finally:
            self.free.release()

    async def _converse(self, request: Completion, asked: RequestMessage) -> None:
        """Send the turns of a session one after another, up to one that fails; a single request is one turn."""
        answer = await self._send(request)
        messages = asked.fields.get("messages", ())
        for number, turn in enumerate(asked.turns, 1):
            if answer is None:
                return
            said = "".join(answer.parts) if turn.given is None else turn.given
            messages = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": turn.content}]
            await _sleep_until(time.monotonic_ns() + turn.think_ns)
            fields = {**turn.fields, "messages": messages}
            following = Completion(asked.id, fields, turn.limit, turns_left=len(asked.turns) - number)
            answer = await self._send(following)

    async def _send(self, request: Completion) -> Answer | None:
        """Return the complete answer; None if it was reported as failed."""
        request.sent_ns = time.monotonic_ns()
        total_timeout_s = self.settings.options.total_timeout_s
        try:
            async with asyncio.timeout(total_timeout_s) as total:
                answer = await self._answer(request)
            return answer if self.report.complete(request, answer, is_text=self.settings.format.is_text) else None
        except Exception as error:  # whatever a server may send: a request that does not end would hang the run
            is_total = isinstance(error, TimeoutError) and total.expired()
            limit = f"no complete answer within {total_timeout_s:g} s (backend.total_timeout_s)"
            self.report.fail(request, limit if is_total else str(error) or type(error).__name__, advise_on(error))
            return None

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
                wait_s = wait_before_retry_s(error, request.attempts)
                if request.attempts > options.retries or request.has_begun:
                    raise
                if wait_s is None or wait_s >= options.total_timeout_s:
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
        oddities = Oddities(self.settings.options.strict)
        kind = Answer if self.settings.format.api.makes_text else VectorAnswer
        answer = kind(self.settings.format, request.limit, self.model, oddities)
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
        now_s, settings, renewed_s = time.monotonic, self.settings, 0.0
        slack_s = min(_SLACK_S, _SLACK * settings.options.timeout_s)
        body = {**settings.fields, **request.fields, "model": self.model}
        url = request_url(request.target, settings.format.api.path)
        async with self.http.post(url, json=body, allow_redirects=False) as response:
            await expect_success(response, answer.oddities)
            is_stream, tokens = settings.format.is_stream, request.limit
            read = messages(response, is_stream=is_stream, oddities=answer.oddities, tokens=tokens)
            async for message in read:
                if message.fields is None:
                    answer.end()
                elif part := answer.add(message.fields):
                    if (at_s := now_s()) > renewed_s + slack_s:  # a timer for each token would take a fifth of the time
                        silence.reschedule(at_s + settings.options.timeout_s + slack_s)
                        renewed_s = at_s
                    request.chunk_ns.append(message.at_ns)
                    if not request.has_begun:
                        self.report.begin(request, part)


async def _sleep_until(due_ns: int) -> None:
    """Wait until a time of CLOCK_MONOTONIC; some loops wake up to a millisecond early."""
    while (left_ns := due_ns - time.monotonic_ns()) > 0:
        await asyncio.sleep(left_ns / 1e9)


@dataclass(slots=True)
class AnswerLine:
    """Sends results back. They never contain the API key or another secret."""

    writer: asyncio.StreamWriter
    access: Access
    has_sizes: bool = False
    """Whether the sizes of chunks are reported."""

    def begin(self, request: Completion, part: Sequence[int] | str) -> None:
        """Report a request's first token, or the text that contains it."""
        request.first_ns = request.chunk_ns[0]
        self.send(Begun(id=request.number, first=part, at_ns=request.first_ns))

    def complete(self, request: Completion, answer: Answer, *, is_text: bool) -> bool:
        """Report a complete answer; return False if it was reported as failed."""
        joined = "".join(answer.parts) if is_text else list(itertools.chain.from_iterable(answer.parts))
        if isinstance(joined, str) and any(each in joined for each in self.access.secrets if len(each) >= _TELLING):
            self.fail(request, "the server answered with the API key or another secret header")
            return False
        self.send(
            Answered(
                id=request.number,
                answer=joined,
                finish=answer.finish,
                prompt_tokens=answer.prompt_tokens,
                answer_tokens=answer.answer_tokens,
                attempts=request.attempts,
                asked_ns=request.asked_ns,
                turns_left=request.turns_left,
                sent_ns=request.sent_ns,
                first_ns=request.first_ns,
                at_ns=time.monotonic_ns(),
                chunk_ns=request.chunk_ns,
                part_sizes=list(map(len, answer.parts)) if self.has_sizes else (),
                oddities={self.access.redact(name): count for name, count in answer.oddities.counts.items()},
            )
        )
        return True

    def fail(self, request: Completion, reason: str, advice: str = "") -> None:
        """Report a request without a complete answer, with the reason and what the user can do."""
        told = one_line(self.access.redact(f"{request.target}: {reason}")) + (f" ({advice})" if advice else "")
        failed = Failed(id=request.number, reason=told, attempts=request.attempts, at_ns=time.monotonic_ns())
        self.send(failed)

    def greet(self, **greeting: str) -> None:
        """Send the first line: ``ready`` with the model's name, or ``refused`` with the reason."""
        self.writer.write(json.dumps(greeting).encode() + b"\n")

    def send(self, message: Begun | Answered | Failed | ClientPulse) -> None:
        """Send a message."""
        self.writer.write(to_line(message))


def _session(timeout_s: float, access: Access, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    """Return the HTTP session. It requests uncompressed bodies, so that a few bytes cannot expand to many."""
    return aiohttp.ClientSession(
        headers={"Accept-Encoding": "identity", **access.headers},
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeout_s),
        auto_decompress=False,
        trust_env=False,  # a proxy would be measured too
        max_line_size=_LONGEST_HEADER,
        max_field_size=_LONGEST_HEADER,
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
    access = Access.of_options(options)
    tls = True if access.tls is None else access.tls
    report = AnswerLine(writer, access, has_sizes=bool(options.alone))
    try:
        # Servers hang up after an error: no connection that may have seen one is used again.
        async with _session(options.timeout_s, access, aiohttp.TCPConnector(force_close=True, ssl=tls)) as http:
            model = await find_model(http, settings.targets, options.model, settings.format.api)
    except Exception as error:  # whatever a server may send is reported in one line
        reason = one_line(access.redact(str(error) or type(error).__name__), longest=3 * LONGEST_REASON)
        report.greet(refused=reason, advice=advise_on(error))
        await writer.drain()
        return
    report.greet(ready=one_line(access.redact(model)))
    connector = aiohttp.TCPConnector(limit=options.most_requests, keepalive_timeout=KEEP_ALIVE_S, ssl=tls)
    async with _session(options.timeout_s, access, connector) as http:
        free = asyncio.Semaphore(options.most_requests)
        client = Client(http=http, settings=settings, model=model, free=free, report=report)
        asking: set[asyncio.Task[None]] = set()
        lag = asyncio.create_task(watch_lag(lambda: bool(asking), report.send))
        while message := await reader.readline():
            asked = of_line(message)
            assert isinstance(asked, RequestMessage)
            task = asyncio.create_task(client.ask(asked))
            asking.add(task)
            task.add_done_callback(asking.discard)
        for task in (lag, *asking):
            task.cancel()


def _find_loop() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Return what runs an event loop: uvloop's, if it is installed, takes less of the processor for each chunk."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, ConnectionError):
        _find_loop()(_serve(socket.socket(fileno=int(sys.argv[1]))))
