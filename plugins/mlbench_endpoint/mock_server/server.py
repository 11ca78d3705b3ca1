"""The mock server: one process, one loop."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from aiohttp import web

from mlbench import UsageError
from mlbench_endpoint.mock_server import vectors
from mlbench_endpoint.mock_server.answers import AnswerBook
from mlbench_endpoint.mock_server.asked import AskedText, BadRequestError, read_request
from mlbench_endpoint.mock_server.counts import MockCounts, metrics_text
from mlbench_endpoint.mock_server.delays import parse_delay
from mlbench_endpoint.mock_server.fault_messages import MockRefusal, refusal
from mlbench_endpoint.mock_server.faults import (
    DIFFERS,
    NEEDS_QUERY,
    NO_MODELS,
    NOT_STREAMED,
    FaultPlan,
    MockFault,
    parse_faults,
)
from mlbench_endpoint.mock_server.lateness import LatenessReport
from mlbench_endpoint.mock_server.messages import AnswerMessages
from mlbench_endpoint.mock_server.options import MockOptions
from mlbench_endpoint.mock_server.pacer import Pacer
from mlbench_endpoint.mock_server.prompt_cache import PrefixCache
from mlbench_endpoint.mock_server.sending import AnswerSender, DueTimes, whole_response
from mlbench_endpoint.mock_server.wire_message import WireMessage

_MOST_BYTES = 1 << 26
"""Most bytes of a request: images lie in it."""

_HASTE_S = 0.1
"""Time that open streams get when the server ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MockReport:
    """The work of a mock server."""

    options: MockOptions
    """Without secrets."""
    counts: MockCounts
    lateness: LatenessReport


_Answer = Callable[[float], Awaitable[web.StreamResponse]]


class MockServer:
    """Answers requests with words, at the times and with the faults that the options name.

    Raises:
        UsageError: an option is invalid.
    """

    def __init__(self, options: MockOptions) -> None:
        """Read the options; needs a running loop, best one with a `PreciseSelector`."""
        self.options = options
        self.counts = MockCounts()
        self.cache = PrefixCache(options.cache_blocks)
        self._pacer = Pacer()
        self._sender = AnswerSender(self._pacer, self.counts)
        self._book = AnswerBook(options.answer_tokens, options.seed)
        self._faults: FaultPlan = parse_faults(options.faults, seed=options.seed, calm=options.calm)
        self._delays = {
            name: parse_delay(getattr(options, name), f"--{name}") for name in ("ttft", "tpot", "jitter", "prefill")
        }
        self._has_jitter = options.jitter.strip() != "0"
        self._rng = Random(options.seed)
        self._free = asyncio.Semaphore(options.slots)
        self._needed = _needed_headers(options)
        self._created_s = int(time.time())
        self._asked = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve until the block ends; yields the URL under which the protocol's paths lie.

        Raises:
            UsageError: the address is taken, or a file of the certificate is none.
        """
        large = partial(web.BaseRequest, loop=asyncio.get_running_loop(), client_max_size=_MOST_BYTES)
        server = web.Server(self.handle, request_factory=large, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_HASTE_S)
        await runner.setup()
        try:
            security = _security(self.options)
            await self._listen(runner, security)
            host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
            yield f"http{'s' if security else ''}://{host}:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.ServerRunner, security: ssl.SSLContext | None) -> None:
        host, port = self.options.host, self.options.port
        if not host:  # it would be each address of the machine
            raise UsageError("--host is empty.", hint="Give 127.0.0.1, or 0.0.0.0 for all addresses.")
        try:
            await web.TCPSite(runner, host, port, backlog=4096, ssl_context=security, reuse_address=True).start()
        except OSError as error:
            raise UsageError(
                f"{host}:{port} cannot be used: {error.strerror}.", hint="Choose another --port or --host."
            ) from None

    def report(self) -> MockReport:
        """Return its work so far, and how late it was."""
        options = replace(self.options, key="", headers=())  # secrets
        return MockReport(options=options, counts=self.counts, lateness=self._pacer.lateness.report())

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        arrived_s = time.monotonic()
        known = self._look_up(request)
        try:
            found = await self._take(request, arrived_s) if known is None else known
        except ConnectionError:  # the client has left; aiohttp would log a traceback
            return web.Response()
        if not isinstance(found, MockRefusal):
            return found
        self.counts.refused += 1
        return web.Response(
            status=found.status, text=found.text, headers=found.headers, content_type=found.content_type
        )

    def _look_up(self, request: web.BaseRequest) -> web.Response | MockRefusal | None:
        """Return the answer to a request that needs no slot; None: it needs one."""
        path = request.path.rstrip("/")
        if path == "/metrics" and self.options.metrics != "none":
            text = metrics_text(self.counts, self.cache.usage, self.options.model, self.options.metrics)
            return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
        if path == "/health":
            return web.Response()
        if refused := self._refuse_stranger(request):
            return refused
        if request.method == "GET" and path.endswith("/models") and not self._faults.has(NO_MODELS):
            model = {"id": self.options.model, "object": "model", "created": self._created_s, "owned_by": "mlbench"}
            return web.json_response({"object": "list", "data": [model]})
        if request.method == "POST" and path.endswith(("/completions", *vectors.PATHS)):
            return None
        return refusal(404, "Not Found")

    def _refuse_stranger(self, request: web.BaseRequest) -> MockRefusal | None:
        """Return the refusal of a request without the needed headers or query."""
        if any(request.headers.get(name) != value for name, value in self._needed.items()):
            return refusal(401, "Incorrect API key provided", "authentication_error")
        if self._faults.has(NEEDS_QUERY) and not request.query.get("api-version"):
            return refusal(404, "Resource not found")
        return None

    async def _take(self, request: web.BaseRequest, arrived_s: float) -> web.StreamResponse | MockRefusal:
        """Answer a request for text, embeddings or scores when a slot is free."""
        try:
            body = json.loads(await request.read())
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return refusal(400, "the body is not a JSON object")
        message, faults = WireMessage(body), self._faults.draw()
        for fault in faults:
            if fault.refuse and (refused := fault.refuse(message)):
                return refused
        if message.get("model", self.options.model) != self.options.model:
            return refusal(404, f"The model `{message['model']}` does not exist.", "NotFoundError")
        try:
            answer = self._plan(request, message, faults)
        except BadRequestError as error:
            return refusal(400, str(error))
        has_to_wait = self._free.locked()
        if has_to_wait and self.counts.waiting >= self.options.queue:
            return refusal(429, f"{self.options.queue} requests wait already", "busy")
        self.counts.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.counts.waiting -= 1
        self.counts.running += 1
        try:
            response = await answer(time.monotonic() if has_to_wait else arrived_s)
        finally:
            self.counts.running -= 1
            self._free.release()
        self.counts.requests += 1
        return response

    def _plan(self, request: web.BaseRequest, body: WireMessage, faults: Sequence[MockFault]) -> _Answer:
        """Return the answer to a request, which is sent when it is called with the begin of the request's time.

        Raises:
            BadRequestError: the request is invalid, or too long.
        """
        path = request.path.rstrip("/")
        if path.endswith(vectors.PATHS):
            numbers = vectors.answer_numbers(body, path, self.options.model)
            return partial(self._answer_numbers, numbers, faults)
        asked = read_request(body, self._asked, is_chat=path.endswith("/chat/completions"))
        if (length := len(asked.tokens) + asked.limit) > self.options.context:
            raise BadRequestError(
                f"This model's maximum context length is {self.options.context} tokens, but {length} were requested"
            )
        self._asked += 1
        return partial(self._answer_text, request, asked, faults)

    async def _answer_numbers(
        self, answer: WireMessage, faults: Sequence[MockFault], begin_s: float
    ) -> web.StreamResponse:
        """Send embeddings or scores after the time to the first token."""
        await asyncio.sleep(begin_s + self._delays["ttft"](self._rng) - time.monotonic())
        self.counts.prompt_tokens += answer["usage"]["total_tokens"]
        return whole_response(answer, faults)

    async def _answer_text(
        self, request: web.BaseRequest, asked: AskedText, faults: Sequence[MockFault], begin_s: float
    ) -> web.StreamResponse:
        """Send an answer, and store its tokens in the prefix cache."""
        names = {fault.name for fault in faults}
        answer = self._book.answer(asked)
        if DIFFERS in names and self._pacer.streams:  # not `running`: that one may have sent all already
            answer = answer.differ_from(self._rng.randrange(len(answer.ids)))
        cached = self.cache.match(asked.tokens)
        self.counts.prompt_tokens += len(asked.tokens)
        self.counts.looked_up_tokens += len(asked.tokens)
        self.counts.cached_tokens += cached
        messages = AnswerMessages(
            asked=asked,
            answer=answer,
            model=self.options.model,
            created_s=self._created_s,
            cached_tokens=cached,
        )
        due = self._due(begin_s, len(asked.tokens) - cached)
        self.cache.store(asked.tokens)
        if asked.is_stream and NOT_STREAMED not in names:
            response = await self._sender.send_stream(request, messages, faults, due)
        else:
            response = await self._sender.send_whole(messages, faults, due)
        self.cache.store([*asked.tokens, *answer.words])
        return response

    def _due(self, begin_s: float, new_tokens: int) -> DueTimes:
        """Return the due time of each token by its number: one behind its schedule never delays the next."""
        rng, delays = self._rng, self._delays
        first_s = begin_s + delays["ttft"](rng) + new_tokens * delays["prefill"](rng)
        tpot_s, jitter = delays["tpot"](rng), delays["jitter"]
        if not self._has_jitter:
            return lambda number: first_s + number * tpot_s
        return lambda number: first_s + number * tpot_s + jitter(rng)


def _needed_headers(options: MockOptions) -> dict[str, str]:
    """Return the headers that requests need; raises `UsageError` for one that is none."""
    found = {"Authorization": f"Bearer {options.key}"} if options.key else {}
    for each in options.headers:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise UsageError(f"--require-header is {each!r}.", hint="Give NAME: VALUE.")
        found[name.strip()] = value.strip()
    return found


def _security(options: MockOptions) -> ssl.SSLContext | None:
    """Return the context of https; raises `UsageError` for files that are no certificate and key."""
    if not options.tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(*options.tls)
    except OSError as error:  # also of OpenSSL
        raise UsageError(
            f"--tls {' '.join(options.tls)}: {error.strerror or error}.",
            hint="Give PEM files of a certificate and key.",
        ) from None
    return context
