"""A server on loopback that sends what it should not, and the endpoint backend that asks it."""

import asyncio
import gzip
import json
import socket
import struct
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import mlbench_llama2_70b
import numpy as np
import pytest
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions

from mlbench import Decoding, EnginePlan, Model, Prompt, Samples
from mlbench.conformance.recording import RecordingReply
from mlbench.toolkit.language import TokenProgram

web = pytest.importorskip("aiohttp.web")

LLAMA = Path(mlbench_llama2_70b.__file__).parent / "mini"
VOCABULARY = 768  # its config.json
END, LONGEST = 2, 50
DONE = b"data: [DONE]\n\n"
EVENTS = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}
GZIP = {"Content-Encoding": "gzip"}
KEY = "sk-s3cret/key"
PATIENCE_S = 60


def event(ids=None, finish=None, usage=None, **choice):
    counts = usage and dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True))
    choice = {"index": 0, "token_ids": ids or [], "text": "", "finish_reason": finish, **choice}
    return data({"model": "hostile", "choices": [choice], "usage": counts})


def data(message):
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def ended(ids=(END,), usage=(1, 1)):
    """Return an event that ends an answer; the prompt has one token."""
    return event(list(ids), "stop", usage)


def sends(*pieces, status=200, headers=EVENTS):
    """Send these pieces, and end the response."""

    async def answer(request):
        response = await _begin(request, status, headers)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    return answer


def floods(piece, *, status=200, headers=EVENTS):
    """Send a piece again and again, for as long as anybody reads."""

    async def answer(request):
        response = await _begin(request, status, headers)
        while True:
            await response.write(piece)

    return answer


def holds(*pieces, status=200, headers=EVENTS):
    """Send these pieces, and never end."""

    async def answer(request):
        response = await _begin(request, status, headers)
        for piece in pieces:
            await response.write(piece)
        await asyncio.Event().wait()
        return response

    return answer


def resets(*pieces):
    """Send these pieces, and reset the connection."""

    async def answer(request):
        response = await _begin(request, 200, EVENTS)
        for piece in pieces:
            await response.write(piece)
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
        return response

    return answer


def raw(content, *, is_end=True):
    """Send bytes that need not be HTTP."""

    async def answer(request):
        request.transport.write(content)
        if is_end:
            request.transport.close()
        await asyncio.Event().wait()

    return answer


async def _begin(request, status, headers):
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    return response


HONEST = sends(event([7]), event([8]), ended(usage=(1, 3)), DONE)
OTHER = {"index": 0, "token_ids": [5], "finish_reason": "stop"}

FAULTS = {
    "more tokens than asked for": (sends(event([7] * 40), event([7] * 11)), "more than the maximum of 50 tokens"),
    "tokens without end": (floods(event([7])), "more than the maximum of 50 tokens"),
    "a negative id": (sends(event([7, -1])), "token id -1, but ids are 0 to 767"),
    "an id beyond 64 bits": (sends(event([2**63])), f"token id {2**63}, but ids are 0 to 767"),
    "an id beyond the vocabulary": (sends(event([VOCABULARY])), "token id 768, but ids are 0 to 767"),
    "a fraction": (sends(event([7.5])), "7.5 as a token id"),
    "a truth": (sends(event([True])), "true as a token id"),
    "a word": (sends(event(["7"])), '"7" as a token id'),
    "nothing for an id": (sends(event([None])), "null as a token id"),
    "a NaN": (sends(b'data: {"choices": [{"token_ids": [NaN]}]}\n\n'), "NaN as a token id"),
    "an object of ids": (sends(event({"0": 7})), '{"0": 7} as token ids'),
    "text for ids": (sends(event(text="seven", token_ids=None)), "sent text, not token ids"),
    "fewer tokens than counted": (sends(event([7]), ended(usage=(1, 9)), DONE), "counts 9 tokens in an answer of 2"),
    "more tokens than counted": (sends(event([7]), ended(usage=(1, 1)), DONE), "counts 1 tokens in an answer of 2"),
    "no usage": (sends(event([7]), ended(usage=None), DONE), "sent no usage"),
    "half of a usage": (sends(data({"choices": [OTHER], "usage": {"prompt_tokens": 1}}), DONE), "sent no usage"),
    "a usage below zero": (sends(ended(usage=(1, -1))), "counts -1 as completion_tokens"),
    "a fraction of a usage": (sends(ended(usage=(0.5, 1))), "counts 0.5 as prompt_tokens"),
    "a list for a usage": (sends(data({"choices": [], "usage": [1, 2]})), r"\[1, 2\] as usage"),
    "no first token": (sends(event([], "stop", (1, 0)), DONE), "ended the answer without a token"),
    "no token at full length": (sends(event([], "length", (1, 0)), DONE), "ended the answer without a token"),
    "tokens after the end": (sends(ended(), event([7]), DONE), "tokens after it had ended the answer with 'stop'"),
    "tokens after [DONE]": (sends(ended(), DONE, event([7])), r"more after \[DONE\]: \[7\]"),
    "two choices": (sends(data({"choices": [OTHER, {**OTHER, "index": 1}]})), "choice 1, but 1 were requested"),
    "another choice": (sends(event([7], index=1)), "choice 1, but 1 were requested"),
    "a choice below zero": (sends(event([7], index=-1)), "choice -1, but 1 were requested"),
    "an object of choices": (sends(data({"choices": {"0": OTHER}})), 'sent {"choices": {"0"'),
    "a number for a choice": (sends(data({"choices": [7]})), "7 as a choice"),
    "an invalid finish reason": (sends(event([7], "error", (1, 1)), DONE), 'ended the answer with "error"'),
    "an object for an end": (sends(event([7], {"a": 1}, (1, 1)), DONE), 'ended the answer with {"a": 1}'),
    "a line without end": (floods(b"data: " + b"x" * 65536), "an event of more than 1048576 bytes: data: xxx"),
    "comments without end": (floods((b": still here" + b"." * 1000 + b"\n\n") * 64), "more than 16777216 bytes"),
    "bytes that are not text": (sends(b'data: {"choices": "\xff\xfe"}\n\n'), "bytes that are not UTF-8"),
    "text that is not JSON": (sends(b"data: seven\n\n"), "invalid JSON: seven"),
    "JSON without end": (sends(b"data: " + b"[" * 100_000 + b"\n\n"), r"invalid JSON: \[\[\["),
    "an integer without end": (sends(b"data: " + b"7" * 100_000 + b"\n\n"), "invalid JSON: 777"),
    "a list for an event": (sends(b"data: [1]\n\n"), r"JSON that is not an object: \[1\]"),
    "a page": (sends(b"<p>Hi", headers={"Content-Type": "text/html"}), "sent text/html, not a stream of events: <p>Hi"),
    "data without end": (floods(b"data: " + b"x" * 4096 + b"\n"), "an event of more than 1048576 bytes: xxx"),
    "no answer in JSON": (sends(b"{}", headers=JSON), "ended the answer without a token"),
    "an error event": (sends(event([7]), b'event: error\ndata: {"code": 7}\n\n'), 'sent an error: {"code": 7}'),
    "an error as an object": (sends(data({"object": "error", "message": "no memory"})), "no memory"),
    "messages of another protocol": (sends(data({"token": {"id": 7}}), DONE), "ended the answer without a token"),
    "an error under status 200": (sends(b'{"error": "out of memory"}', headers=JSON), "out of memory"),
    "an error in the stream": (sends(event([7]), data({"error": {"message": "out of memory"}})), "out of memory"),
    "an escape sequence": (sends(b"\x1b[2Jgone", status=500), r"answered 500: \\x1b\[2Jgone"),
    "a redirection": (
        sends(status=302, headers={"Location": "/elsewhere"}),
        r"answered 302 \(Location: /elsewhere\): \(give the URL that it points to",
    ),
    "nothing at all": (sends(headers={"Content-Type": "text/plain"}), "text/plain, not a stream of events: no bytes"),
    "too many requests": (sends(b"slow", status=429, headers={"Retry-After": "7"}), r"429 \(Retry-After: 7\): slow"),
    "an error without end": (floods(b"x" * 65536, status=503), "answered 503: xxx"),
    "a reset": (resets(event([7])), r"reset|[Cc]onnection|[Pp]ayload"),
    "a connection that ends in the middle": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 999\r\n\r\n" + event([7])),
        "payload",
    ),
    "an answer that ends in the middle": (sends(event([7])), "cut the answer off after 1 parts"),
    "an empty answer": (sends(), "cut the answer off after 0 parts"),
    "a bomb": (sends(gzip.compress(bytes(1 << 22)), headers=EVENTS | GZIP), "an event of more than 1048576 bytes"),
    "a bomb of comments": (
        sends(gzip.compress(b": %b\n" % (b"." * 1000) * 18_000), headers=EVENTS | GZIP),
        "more than 16777216 bytes",
    ),
    "what is not gzip": (sends(ended(), headers=EVENTS | GZIP), "is not gzip, as it says"),
    "Brotli": (sends(ended(), headers=EVENTS | {"Content-Encoding": "br"}), r"compressed its answer \(br\)"),
    "no HTTP": (raw(b"220 mail.example ready\r\n\r\n"), "(?i)bad|invalid|expected"),
    "a header without end": (raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, is_end=False), "(?i)header|got more"),
    "no answer at all": (raw(b""), "(?i)disconnected"),
}  # fmt: skip

WHOLE = [event([7]), event([8]), ended(usage=(1, 3))]
NAMED = data({"model": "hostile-2024-08-06", "choices": [{**OTHER, "token_ids": [7, 8, END]}]})
USAGE = {"prompt_tokens": 1, "completion_tokens": 3}
PLAIN = {"model": "hostile", "choices": [{**OTHER, "token_ids": [7, 8, END]}], "usage": USAGE}
UNCOUNTED = [event([7]), event([8]), event([END], "stop")]

ODD = {
    "a second [DONE]": (sends(*WHOLE, DONE, DONE), {"a second [DONE]": 1}),
    "no [DONE]": (sends(*WHOLE), {"an answer without [DONE]": 1}),
    "usage without choices": (sends(*UNCOUNTED, data({"usage": USAGE}), DONE), {"usage without choices": 1}),
    "usage with null": (sends(*UNCOUNTED, data({"choices": None, "usage": USAGE}), DONE), {"usage without choices": 1}),
    "usage after [DONE]": (
        sends(*UNCOUNTED, DONE, data({"choices": [], "usage": USAGE})),
        {"a message after [DONE]": 1},
    ),
    "new names of counts": (
        sends(*UNCOUNTED, data({"choices": [], "usage": {"input_tokens": 1, "output_tokens": 3}}), DONE),
        {"input_tokens for prompt_tokens": 1, "output_tokens for completion_tokens": 1},
    ),
    "fractions for counts": (
        sends(*UNCOUNTED, data({"choices": [], "usage": {"prompt_tokens": 1.0, "completion_tokens": 3.0}}), DONE),
        {"a fraction for prompt_tokens": 1, "a fraction for completion_tokens": 1},
    ),
    "a dated name": (sends(NAMED, ended([], (1, 3)), DONE), {"the model's name 'hostile-2024-08-06'": 1}),
    "another reason": (sends(*WHOLE[:2], event([END], "eos", (1, 3)), DONE), {"finish_reason 'eos'": 1}),
    "a word for no reason": (sends(event([7], "null"), *WHOLE[1:], DONE), {"finish_reason 'null'": 1}),
    "no reason": (sends(*WHOLE[:2], event([END], None, (1, 3)), DONE), {"an answer without finish_reason": 1}),
    "a ping": (sends(b"event: ping\ndata: now\n\n", *WHOLE, DONE), {"an event named 'ping'": 1}),
    "a named event": (
        sends(b"event: chunk\n" + WHOLE[0], *WHOLE[1:], DONE),
        {"an event named 'chunk'": 1},
    ),
    "filters": (sends(data({"prompt_filter_results": []}), *WHOLE, DONE), {"a message without choices": 1}),
    "another success": (sends(*WHOLE, DONE, status=201), {"an answer under status 201": 1}),
    "a long header": (sends(*WHOLE, DONE, headers=EVENTS | {"X-Policy": "x" * 50_000}), {}),
    "gzip": (
        sends(gzip.compress(b"".join([*WHOLE, DONE])), headers=EVENTS | GZIP),
        {"an answer compressed with gzip, which was not requested": 1},
    ),
    "plain text": (
        sends(*WHOLE, DONE, headers={"Content-Type": "text/plain"}),
        {"a stream of content type text/plain": 1},
    ),
    "one answer": (sends(json.dumps(PLAIN).encode(), headers=JSON), {"one JSON answer instead of a stream": 1}),
    "no blank lines": (
        sends(*(each.replace(b"\n\n", b"\n") for each in (*WHOLE, DONE))),
        {"an event without a blank line after it": 4},
    ),
    "a cut end": (sends(*WHOLE, b"data: [DONE]"), {"an event without a blank line after it": 1}),
    "carriage returns": (sends(*(each.replace(b"\n", b"\r") for each in (*WHOLE, DONE))), {}),
    "both ends of lines": (sends(*(each.replace(b"\n", b"\r\n") for each in (*WHOLE, DONE))), {}),
    "a byte order mark": (sends(b"\xef\xbb\xbf" + WHOLE[0], *WHOLE[1:], DONE), {}),
    "comments, ids and times": (sends(b": hello\n\nid: 7\nretry: 3\nodd\n\n", *WHOLE, b"data:\n\n", DONE), {}),
    "several lines of data": (sends(WHOLE[0].replace(b', "', b',\ndata: "'), *WHOLE[1:], DONE), {}),
    "a byte at a time": (sends(*(bytes([each]) for each in b"".join([*WHOLE, DONE]))), {}),
    "HTTP 1.0": (raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + b"".join([*WHOLE, DONE])), {}),
}  # fmt: skip
"""Answers of two tokens and an end whose form is odd, and how mlbench counts that."""

SILENCES = {
    "nothing": raw(b"", is_end=False),
    "headers that are never finished": raw(b"HTTP/1.1 200 OK\r\nX-Wait: a while\r\n", is_end=False),
    "no event": holds(),
    "half a line": holds(b'data: {"cho'),
    "a comment, and nothing more": holds(b": still here\n\n"),
    "comments for ever": floods(b": still here\n\n"),
    "events without tokens for ever": floods(event([])),
    "a token, and nothing more": holds(event([7])),
    "an answer whose response never ends": holds(ended(), DONE),
    "a refusal that never ends": holds(b"busy", status=503),
}


class Server:
    """A server in a thread of its own."""

    def __init__(self, behaviours, otherwise=HONEST, models=None):
        self.behaviours, self.otherwise = behaviours, otherwise
        self.models = models or sends(b'{"data": [{"id": "hostile"}]}', headers=JSON)
        self.asked, self.strays = [], []
        self._loop, self._runner = asyncio.new_event_loop(), None
        self._began, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    def __enter__(self):
        self._thread.start()
        assert self._began.wait(PATIENCE_S)
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        self._loop.close()

    async def _run(self):
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._answer)
        app.router.add_route("*", "/{stray:.*}", self._stray)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=512).start()
        self._began.set()
        await self._over.wait()
        await self._runner.cleanup()

    async def _models(self, request):
        return await self.models(request)

    async def _answer(self, request):
        body = await request.json()
        self.asked.append(body)
        prompt = body["prompt"]
        behaviour = self.otherwise if isinstance(prompt, str) else self.behaviours.get(prompt[0], self.otherwise)
        with suppress(ConnectionError):  # the client has gone
            return await behaviour(request)
        return web.Response()

    async def _stray(self, request):
        self.strays.append((request.path, dict(request.headers)))
        return web.Response(status=404)


class Prompts:
    """A sample's prompt is one token: its index."""

    def sample(self, index):
        return Prompt(tokens=np.array([index]))


class Program(TokenProgram):
    """Refuses to read an answer that has a 13 in it, as a workload may."""

    def answer(self, tokens):
        if 13 in tokens:
            raise OverflowError("13 is too much")
        return super().answer(tokens)


@contextmanager
def engine(server, **options):
    program = Program(Decoding(end_tokens=(END,), max_new_tokens=LONGEST, longest=100))
    model = Model(name="talk", graphs={}, program=program, weights_fingerprint="", files=LLAMA)
    backend = Endpoint().with_options(EndpointOptions(**{"url": server.url, **options}))
    with backend.engine(model, EnginePlan()) as opened:
        yield opened


def samples_of(indices):
    return Samples([1000 + index for index in indices], list(indices), Prompts())


def ask(opened, indices):
    """Return what became of samples, by their index: the answer, or why there is none."""
    reply, samples = RecordingReply(), samples_of(indices)
    opened.submit(samples, reply)
    assert reply.wait(samples, PATIENCE_S), f"never answered: {reply.still_open(samples).indices}"
    ended_once = [*reply.answers.values(), *reply.failures.values()]
    assert all(len(each) == 1 for each in ended_once) and len(ended_once) == len(samples)
    failed = {id_ - 1000: reasons[0] for id_, reasons in reply.failures.items()}
    return failed | {id_ - 1000: answers[0].tolist() for id_, answers in reply.answers.items()}
