"""The engine in front of a server: requests out, tokens in."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mlbench import Engine, EngineStatistics, GenerationProgram, Prompt, Reply, Samples, UnavailableError
from mlbench.toolkit import AwaitedReply, SideProcess
from mlbench_endpoint.client_messages import Answered, Begun, Failed, Message, RequestMessage, of_line, to_line
from mlbench_endpoint.client_settings import ClientSettings
from mlbench_endpoint.request_format import RequestFormat
from mlbench_endpoint.request_times import RequestTimes
from mlbench_endpoint.text_format import TextRequestFormat

if TYPE_CHECKING:
    from mlbench_endpoint.options import EndpointOptions
    from mlbench_endpoint.started_server import StartedServer

_PATIENCE_S = 10.0
_FEW_SAMPLES = 8
_ENDED = "the process that talks to servers ended"


@dataclass(slots=True)
class EndpointCounts:
    """Statistics of a run's requests, for the record."""

    answered: int = 0
    failed: int = 0
    retried: int = 0
    truncated_prompts: int = 0
    """Prompts for which the server counted fewer tokens than were sent; see `EngineStatistics`."""
    prompts_cut_otherwise: int = 0
    """Answers for which the server's count of prompt tokens differs from mlbench's, including the above."""
    answers_cut_otherwise: int = 0
    """Answers for which the server's count of tokens differs from mlbench's: text can be tokenised in many ways."""
    longest_way_ns: int = 0
    """The longest time from a token's arrival in the other process to its report to LoadGen."""
    times: RequestTimes = field(default_factory=RequestTimes)

    def statistics(self, served_model: str, *, knows_prompts: bool) -> EngineStatistics:
        """Return the record's form, with the model's name on the servers.

        Args:
            served_model: its name.
            knows_prompts: whether the number of tokens in a whole prompt is known; else truncation cannot be detected.
        """
        own = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "times"}
        truncated_prompts = own.pop("truncated_prompts")
        return EngineStatistics(
            batching="server",
            truncated_prompts=truncated_prompts if knows_prompts else None,
            extra={
                "served_model": served_model,
                **own,
                "from_sending": list(map(dataclasses.asdict, self.times.quantities())),
            },
        )


@dataclass(slots=True)
class _Asked:
    samples: Samples
    reply: Reply
    prompt: Prompt
    first: Any = None
    """The part of the answer whose first token was reported."""


class EndpointEngine(Engine):
    """Passes prompts to a process that talks HTTP, and completes samples from a thread that receives the tokens.

    Each sample is answered or failed, whatever a server sends: the other process keeps the time limits, and the thread
    fails a sample whose answer cannot be read.
    """

    def __init__(
        self,
        options: EndpointOptions,
        targets: tuple[str, ...],
        program: GenerationProgram,
        request_format: RequestFormat | TextRequestFormat,
        server: StartedServer | None = None,
    ) -> None:
        self._options = options
        self._targets = targets
        self._program = program
        self._format = request_format
        self._server = server
        self._counts = EndpointCounts()
        self._asked: dict[int, _Asked] = {}
        self._requests = 0
        self._model = ""
        self._process: SideProcess | None = None
        self._is_leaving = False
        self._thread = threading.Thread(target=self._listen, name="mlbench-endpoint", daemon=True)

    def __enter__(self) -> Self:
        """Start the server, if configured, and the process, which asks every target for its models.

        Raises:
            UnavailableError: the server does not start, a target does not answer, or does not have the model.
        """
        if self._server:
            self._server.start()
        settings = ClientSettings(
            targets=self._targets, fields=self._format.common, format=self._format.answer, options=self._options
        )
        self._process = SideProcess("mlbench_endpoint.client")
        self._messages = self._process.line.makefile("rb")
        try:
            self._process.line.sendall(settings.to_line())
            first = json.loads(self._messages.readline())
        except (OSError, ValueError):
            first = {"refused": _ENDED}
        if "refused" in first:
            self.__exit__(None, None, None)
            raise UnavailableError(
                f"{first['refused']}.", hint="Check that the server runs, and backend.url and backend.model."
            )
        self._model = first["ready"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the socket, which ends the process and the thread; open requests are dropped.

        A server that was started ends too.
        """
        assert self._process
        self._is_leaving = True
        self._process.hang_up()
        self._process.wait(_PATIENCE_S)
        if self._thread.is_alive():
            self._thread.join()
        self._messages.close()
        self._process.line.close()
        if self._server:
            self._server.end()

    def warm_up(self, samples: Samples) -> None:
        """Request these answers, and drop them; only a few of a server's own model, whose answers may take long.

        Raises:
            UnavailableError: one fails.
        """
        if isinstance(self._format, TextRequestFormat):
            samples = samples[: min(_FEW_SAMPLES, self._options.most_requests)]
        reply = AwaitedReply(len(samples))
        self.submit(samples, reply)
        reply.wait()
        if reply.failure:
            hint = "" if self._format.is_text else " A server that accepts only text needs --set backend.prompt=text."
            raise UnavailableError(f"{reply.failure}.", hint=f"The server refused a prompt during warm-up.{hint}")
        self._counts = EndpointCounts()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Send a request for each sample."""
        for place, sample in enumerate(samples.data()):
            part = samples if len(samples) == 1 else samples[place : place + 1]
            prompt = self._program.prompt(sample)
            if (limit := self._format.limit(prompt)) < 1:
                reply.fail(part, f"the prompt of {len(prompt.tokens)} tokens leaves no tokens for an answer")
                continue
            self._requests += 1
            self._asked[self._requests] = _Asked(part, reply, prompt)
            try:
                self._send(RequestMessage(id=self._requests, fields=self._format.fields(prompt), limit=limit))
            except OSError:  # the reader is gone
                self._fail(self._requests, _ENDED)

    def statistics(self) -> EngineStatistics:
        """Return counts of requests since the last call, and the model's name on the servers."""
        counts, self._counts = self._counts, EndpointCounts()
        found = counts.statistics(self._model, knows_prompts=isinstance(self._format, RequestFormat))
        if not self._server:
            return found
        return dataclasses.replace(found, extra={**found.extra, "server_versions": self._server.versions})

    def _send(self, message: RequestMessage) -> None:
        assert self._process
        self._process.line.sendall(to_line(message))

    def _listen(self) -> None:
        """Forward the other process's reports, until it ends; unanswered samples fail then."""
        try:
            with suppress(OSError):  # it was killed
                for line in self._messages:
                    if line.endswith(b"\n"):  # else it was killed while it wrote
                        self._take(of_line(line))
        finally:
            for number in [] if self._is_leaving else list(self._asked):
                self._fail(number, _ENDED)

    def _take(self, message: Message) -> None:
        """Pass on a first token, an answer or a failure."""
        number = message.id
        assert not isinstance(message, RequestMessage)  # that goes the other way
        if (asked := self._asked.get(number)) is None:
            return  # it failed while its first token was read
        try:
            match message:
                case Begun():
                    self._give_first(asked, message.first)
                case Failed():
                    self._counts.retried += message.attempts - 1
                    self._fail(number, message.reason)
                case Answered():
                    self._give(asked, message)
                    self._asked.pop(number)
        except Exception as error:  # an unforeseen answer must not end the thread, which serves all others
            self._fail(number, f"the answer cannot be read: {error or type(error).__name__}")
        self._counts.longest_way_ns = max(self._counts.longest_way_ns, time.monotonic_ns() - message.at_ns)

    def _fail(self, number: int, reason: str) -> None:
        """Fail a sample, unless it is finished."""
        if asked := self._asked.pop(number, None):
            self._counts.failed += 1
            asked.reply.fail(asked.samples, reason)

    def _give_first(self, asked: _Asked, part: Any) -> None:
        if tokens := self._format.tokens(part, is_finished=False)[:1]:  # text can be less than a token
            asked.first = part
            asked.reply.first_token(asked.samples, np.array([tokens], self._program.reply.dtype))

    def _give(self, asked: _Asked, message: Answered) -> None:
        is_finished = message.finish == "stop"
        tokens = self._format.tokens(message.answer, is_finished=is_finished, first=asked.first)
        answer = self._program.answer(tokens)
        count = self._format.count(len(answer), message.answer_tokens)
        self._count(asked.prompt, count, message)
        if asked.first is None:
            asked.reply.first_token(asked.samples, answer[np.newaxis, :1])
        asked.reply.complete(asked.samples, [answer], [count])

    def _count(self, prompt: Prompt, tokens: int, message: Answered) -> None:
        """Count an answer, and compare the server's counts with mlbench's."""
        counts, seen, sent = self._counts, message.prompt_tokens, self._format.prompt_tokens(prompt)
        counts.retried += message.attempts - 1
        counts.answered += 1
        counts.times.add(message, tokens)
        if sent is not None and seen not in (None, sent):
            counts.prompts_cut_otherwise += 1
            counts.truncated_prompts += seen < self._format.fewest_tokens(prompt)
        may_stop = bool(prompt.stop)  # then mlbench puts the end token that no server counts
        counts.answers_cut_otherwise += message.answer_tokens not in (None, tokens, tokens - may_stop)
