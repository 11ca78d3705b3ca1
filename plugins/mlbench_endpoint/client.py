"""The process that talks to servers, so that no HTTP is parsed where LoadGen keeps its clock.

It reads messages from a socket and writes some back, a JSON object a line. The first that it gets is the settings, the
others are requests; it answers with ``ready`` or ``refused``, then for each request with its first token and its end.
When the other side hangs up it ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp

LONGEST_MESSAGE = 1 << 26
"""Bytes of a line: a prompt or an answer, with room to spare."""

LONGEST_EVENT = 1 << 20
"""Bytes of a line that a server streams."""

KEEP_ALIVE_S = 1.0
"""How long an idle connection is used again. Servers hang up on idle ones, some after as little as 5 s, and a request
that crosses that on its way is lost: hence well before them."""

LISTING_S = 60.0
"""How long a server may take to list its models."""

_LONGEST_REASON = 300


class RequestFailed(Exception):
    """A request brought no whole answer; says why."""


@dataclass(slots=True)
class Answer:
    """What has come of an answer."""

    parts: list[Any] = field(default_factory=list)
    finish: str | None = None
    prompt_tokens: int | None = None
    answer_tokens: int | None = None

    def add(self, message: Mapping[str, Any]) -> bool:
        """Take what a server sent; tell whether it brought tokens.

        Raises:
            RequestFailed: it reports an error, or is no part of an answer.
        """
        if "error" in message or not isinstance(message.get("choices"), list):
            raise RequestFailed(f"the server sent {_shortened(json.dumps(message))}")
        usage = message.get("usage") or {}
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self.answer_tokens = usage.get("completion_tokens", self.answer_tokens)
        brought = False
        for choice in message["choices"][:1]:  # further ones are beams that lost
            part = choice.get("token_ids") or choice.get("text")
            self.finish = choice.get("finish_reason") or self.finish
            if part:
                self.parts.append(part)
                brought = True
        return brought


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Sends requests to targets in turn."""

    http: aiohttp.ClientSession
    targets: Sequence[str]
    model: str
    fields: Mapping[str, Any]
    """Of every request."""
    retries: int
    is_text: bool
    turns: itertools.count[int] = field(default_factory=itertools.count)

    async def ask(self, request: Mapping[str, Any], report: Report) -> None:
        """Send a request and report its first token and its end."""
        number = request["id"]
        for attempt in range(self.retries + 1):
            try:
                answer = await self._answer(number, request["fields"], report)
            except Exception as error:  # whatever a server may send: a request that is not answered would hang the run
                if attempt < self.retries and number not in report.begun:
                    continue
                report.send(id=number, failed=_shortened(str(error) or type(error).__name__), attempts=attempt + 1)
                return
            joined = "".join(answer.parts) if self.is_text else list(itertools.chain.from_iterable(answer.parts))
            report.send(
                id=number,
                answer=joined,
                finish=answer.finish,
                prompt_tokens=answer.prompt_tokens,
                answer_tokens=answer.answer_tokens,
                attempts=attempt + 1,
            )
            return

    async def _answer(self, number: int, fields: Mapping[str, Any], report: Report) -> Answer:
        """Return a whole answer.

        Raises:
            RequestFailed: the server refused, reported an error, answered as another model, or stopped before the end.
            aiohttp.ClientError: the connection failed.
        """
        target = self.targets[next(self.turns) % len(self.targets)]
        answer = Answer()
        body = {**self.fields, **fields, "model": self.model}
        async with self.http.post(f"{target}/completions", json=body, allow_redirects=False) as response:
            await _expect_success(response, target)
            async for message in _messages(response):
                brought = answer.add(message)
                check_name(message, self.model)
                if brought:
                    self._check(answer.parts[-1])
                    if len(answer.parts) == 1:
                        report.begin(number, answer.parts[0])
        if answer.finish is None:
            raise RequestFailed(f"{target} cut the answer off after {len(answer.parts)} parts")
        return answer

    def _check(self, part: object) -> None:
        is_tokens = isinstance(part, list) and all(isinstance(token, int) for token in part)
        if not (isinstance(part, str) if self.is_text else is_tokens):
            raise RequestFailed("the server sent no text" if self.is_text else "the server sent text, no token ids")


@dataclass(slots=True)
class Report:
    """The way back."""

    writer: asyncio.StreamWriter
    begun: set[int] = field(default_factory=set)

    def begin(self, number: int, part: Sequence[int] | str) -> None:
        """Report a request's first token, or the text that it came in."""
        self.begun.add(number)
        self.send(id=number, first=part)

    def send(self, **message: Any) -> None:
        """Send a message with the time of sending, CLOCK_MONOTONIC in ns."""
        self.writer.write(json.dumps({**message, "at_ns": time.monotonic_ns()}).encode() + b"\n")


async def _messages(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of events, or the only one of a plain answer."""
    if response.content_type != "text/event-stream":
        yield _object(await response.text(errors="replace"))
        return
    async for line in response.content:
        if line.startswith(b"data:"):
            data = line.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            yield _object(data.decode(errors="replace"))


async def _expect_success(response: aiohttp.ClientResponse, url: str) -> None:
    """Raise `RequestFailed` with what the server says, unless it says that all is well."""
    if response.status != HTTPStatus.OK:
        text = await response.text(errors="replace")
        raise RequestFailed(f"{url} answered {response.status}: {_shortened(text)}")


def check_name(message: Mapping[str, Any], model: str) -> None:
    """Raise `RequestFailed` if a message is in another model's name; some servers add a revision behind an ``@``."""
    name = str(message.get("model") or model)
    if name != model and not name.startswith(f"{model}@"):
        raise RequestFailed(f"the server answered as {name!r}, not as {model!r}")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise RequestFailed(f"the server sent what is no JSON: {_shortened(text)}") from None
    if not isinstance(found, dict):
        raise RequestFailed(f"the server sent no JSON object: {_shortened(text)}")
    return found


def _shortened(text: str) -> str:
    """Return a text on one line, cut where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[:_LONGEST_REASON] + "..."


async def _served(http: aiohttp.ClientSession, targets: Sequence[str], model: str) -> str:
    """Return the name of the model, which every target must have.

    Raises:
        RequestFailed: a target does not answer, or has no such model, or not one alone when none is named.
    """
    for target in targets:
        try:
            names = await _listed(http, target, model)
            if not model and len(names) != 1:
                listed = f"{len(names)} models ({_shortened(', '.join(names))})" if names else "no models"
                raise RequestFailed(f"{target} lists {listed}: name one")
            model = model or names[0]
            if model not in names:
                await _expect_model(http, target, model, names)
        except aiohttp.InvalidURL:
            raise RequestFailed(f"{target} is no URL") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RequestFailed(f"{target} does not answer: {error or type(error).__name__}") from error
    return model


async def _listed(http: aiohttp.ClientSession, target: str, model: str) -> list[str]:
    """Return the names of a target's models; none where it lists none.

    Raises:
        RequestFailed: it refuses to, which matters where the user names no model either.
    """
    patience = aiohttp.ClientTimeout(total=LISTING_S)
    async with http.get(f"{target}/models", timeout=patience, allow_redirects=False) as response:
        if response.status != HTTPStatus.OK and model:
            return []
        await _expect_success(response, f"{target}/models")
        entries = _object(await response.text(errors="replace")).get("data")
    listed: list[Any] = entries if isinstance(entries, list) else []
    return [str(entry["id"]) for entry in listed if isinstance(entry, dict) and "id" in entry]


async def _expect_model(http: aiohttp.ClientSession, target: str, model: str, names: Sequence[str]) -> None:
    """Ask for a token of a model that a target does not list.

    ``transformers serve`` lists what was downloaded, not the folder that it serves.

    Raises:
        RequestFailed: the target has no such model.
    """
    body = {"model": model, "prompt": "a", "max_tokens": 1}
    async with http.post(f"{target}/completions", json=body, allow_redirects=False) as response:
        try:
            await _expect_success(response, target)
            async for message in _messages(response):
                Answer().add(message)
                check_name(message, model)
        except RequestFailed as error:
            listed = f"lists no model {model!r}, but {_shortened(', '.join(names))}" if names else "lists no models"
            raise RequestFailed(f"{target} {listed}; asked for {model!r}: {error}") from None


def _session(settings: Mapping[str, Any], connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    key, patience_s = os.environ.get(settings["key_variable"], "").strip(), settings["timeout_s"]
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        connector=connector,
        timeout=aiohttp.ClientTimeout(sock_connect=patience_s, sock_read=patience_s),
        read_bufsize=LONGEST_EVENT,
        trust_env=False,  # a proxy would be measured too
    )


async def _serve(line: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=line, limit=LONGEST_MESSAGE)
    settings = json.loads(await reader.readline())
    report = Report(writer)
    try:
        # Servers hang up after an error: no connection that may have seen one is used again.
        async with _session(settings, aiohttp.TCPConnector(force_close=True)) as http:
            model = await _served(http, settings["targets"], settings["model"])
    except RequestFailed as error:
        report.send(refused=str(error))
        await writer.drain()
        return
    report.send(ready=model)
    connector = aiohttp.TCPConnector(limit=settings["connections"], keepalive_timeout=KEEP_ALIVE_S)
    async with _session(settings, connector) as http:
        client = Client(
            http=http,
            targets=settings["targets"],
            model=model,
            fields=settings["fields"],
            retries=settings["retries"],
            is_text=settings["is_text"],
        )
        asking: set[asyncio.Task[None]] = set()
        while message := await reader.readline():
            task = asyncio.create_task(client.ask(json.loads(message), report))
            asking.add(task)
            task.add_done_callback(asking.discard)
        for task in asking:
            task.cancel()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, ConnectionError):
        asyncio.run(_serve(socket.socket(fileno=int(sys.argv[1]))))
