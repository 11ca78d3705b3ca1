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
from typing import Any

import httpx

LONGEST_MESSAGE = 1 << 26
"""Bytes of a line: a prompt or an answer, with room to spare."""

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
    model: str = ""

    def add(self, message: Mapping[str, Any]) -> bool:
        """Take what a server sent; tell whether it brought tokens.

        Raises:
            RequestFailed: it reports an error, or is no part of an answer.
        """
        if "error" in message or not isinstance(message.get("choices"), list):
            raise RequestFailed(f"the server sent {_shortened(json.dumps(message))}")
        self.model = str(message.get("model") or self.model)
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

    http: httpx.AsyncClient
    targets: Sequence[str]
    fields: Mapping[str, Any]
    """Of every request, the model's name among them."""
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
                model=answer.model,
                attempts=attempt + 1,
            )
            return

    async def _answer(self, number: int, fields: Mapping[str, Any], report: Report) -> Answer:
        """Return a whole answer.

        Raises:
            RequestFailed: the server refused, reported an error, or stopped before the end.
            httpx.HTTPError: the connection failed.
        """
        target = self.targets[next(self.turns) % len(self.targets)]
        answer = Answer()
        body = {**self.fields, **fields}
        async with self.http.stream("POST", f"{target}/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                await response.aread()
                raise RequestFailed(f"{target} answered {response.status_code}: {_shortened(response.text)}")
            async for message in _messages(response):
                if answer.add(message):
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


async def _messages(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the JSON objects of a stream of events, or the only one of a plain answer."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        await response.aread()
        yield _object(response.text)
        return
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                return
            yield _object(data)


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


async def _served(http: httpx.AsyncClient, targets: Sequence[str], model: str) -> str:
    """Return the name of the model, which every target must have where it lists any.

    Raises:
        RequestFailed: a target does not answer, or has no such model, or several when none is named.
    """
    for target in targets:
        try:
            response = await http.get(f"{target}/models")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RequestFailed(f"{target} does not answer: {error or type(error).__name__}") from error
        if response.status_code != httpx.codes.OK:
            raise RequestFailed(f"{target}/models answered {response.status_code}: {_shortened(response.text)}")
        entries = _object(response.text).get("data")
        listed: list[Any] = entries if isinstance(entries, list) else []
        names = [str(entry["id"]) for entry in listed if isinstance(entry, dict) and "id" in entry]
        if not model and len(names) != 1:
            raise RequestFailed(f"{target} has {len(names)} models ({_shortened(', '.join(names))}): name one")
        model = model or names[0]
        if names and model not in names:
            raise RequestFailed(f"{target} has no model {model!r}, but {_shortened(', '.join(names))}")
    return model


async def _serve(line: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=line, limit=LONGEST_MESSAGE)
    settings = json.loads(await reader.readline())
    key = os.environ.get(settings["key_variable"])
    most = settings["connections"]
    report = Report(writer)
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx.Timeout(settings["timeout_s"], pool=None),
        limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
        trust_env=False,  # a proxy would be measured too
    ) as http:
        try:
            model = await _served(http, settings["targets"], settings["model"])
        except RequestFailed as error:
            report.send(refused=str(error))
            await writer.drain()
            return
        report.send(ready=model)
        client = Client(
            http=http,
            targets=settings["targets"],
            fields={**settings["fields"], "model": model},
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
