"""The engine in front of a server: requests out, tokens in."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mlbench import Engine, GenerationProgram, Reply, Samples, UnavailableError
from mlbench.toolkit import SideProcess
from mlbench_endpoint.wording import Wording

if TYPE_CHECKING:
    from mlbench_endpoint.backend import EndpointOptions

_PATIENCE_S = 10.0


@dataclass(slots=True)
class Counts:
    """What the record tells of a run's requests."""

    answered: int = 0
    failed: int = 0
    retried: int = 0
    prompts_cut_otherwise: int = 0
    """Answers whose server counted other tokens in the prompt than mlbench sent."""
    answers_cut_otherwise: int = 0
    """Answers whose server counted other tokens than mlbench: text can be cut in many ways."""
    longest_way_ns: int = 0
    """The longest time from a token's arrival in the other process to LoadGen's hearing of it."""

    def values(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _Asked:
    samples: Samples
    reply: Reply
    prompt_tokens: int
    may_stop: bool
    """Whether a stop sequence can end the answer, after which mlbench puts the end token that no server counts."""
    first: Any = None
    """The part of the answer whose first token was reported."""


class _Warmth(Reply):
    """Waits for warm-up's answers."""

    def __init__(self, count: int) -> None:
        self.failure = ""
        self._left = count
        self._done = threading.Event()

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Ignore it."""

    def complete(self, samples: Samples, outputs: Any, token_counts: Any = None) -> None:
        """Count an answer."""
        self._count()

    def fail(self, samples: Samples, reason: str) -> None:
        """Keep the reason."""
        self.failure = reason
        self._count()

    def wait(self) -> None:
        """Return when all are answered."""
        self._done.wait()

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            self._done.set()


class EndpointEngine(Engine):
    """Hands prompts to a process that talks HTTP, and answers from a thread that hears of tokens."""

    def __init__(
        self, options: EndpointOptions, targets: tuple[str, ...], program: GenerationProgram, wording: Wording
    ) -> None:
        self._options = options
        self._targets = targets
        self._program = program
        self._wording = wording
        self._counts = Counts()
        self._asked: dict[int, _Asked] = {}
        self._requests = 0
        self._model = ""
        self._process: SideProcess | None = None
        self._thread = threading.Thread(target=self._hear, name="mlbench-endpoint", daemon=True)

    def __enter__(self) -> Self:
        """Start the process, and have it ask every target for its models.

        Raises:
            UnavailableError: a target does not answer, or does not have the model.
        """
        self._process = SideProcess("mlbench_endpoint.client")
        self._heard = self._process.line.makefile("rb")
        self._send(
            targets=self._targets,
            model=self._options.model,
            fields=self._wording.common,
            is_text=self._wording.is_text,
            connections=self._options.connections,
            timeout_s=self._options.timeout_s,
            retries=self._options.retries,
            key_variable=self._options.key_variable,
        )
        first = json.loads(self._heard.readline() or b'{"refused": "the process that talks to servers ended"}')
        if "refused" in first:
            self.__exit__(None, None, None)
            raise UnavailableError(f"{first['refused']}.", hint="See that the server runs, and backend.url and .model.")
        self._model = first["ready"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up, at which the process ends, and the thread with it; requests under way are dropped."""
        assert self._process
        self._process.hang_up()
        self._process.wait(_PATIENCE_S)
        if self._thread.is_alive():
            self._thread.join()
        self._heard.close()
        self._process.line.close()

    def warm_up(self, samples: Samples) -> None:
        """Ask for these answers, and drop them.

        Raises:
            UnavailableError: one fails.
        """
        warmth = _Warmth(len(samples))
        self.submit(samples, warmth)
        warmth.wait()
        if warmth.failure:
            hint = "" if self._wording.is_text else " One that takes only text needs --set backend.prompt=text."
            raise UnavailableError(f"{warmth.failure}.", hint=f"The server refused a prompt while warming up.{hint}")
        self._counts = Counts()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Send a request for each sample."""
        for place, sample in enumerate(samples.data()):
            prompt = self._program.prompt(sample)
            self._requests += 1
            part = samples if len(samples) == 1 else samples[place : place + 1]
            self._asked[self._requests] = _Asked(part, reply, len(prompt.tokens), bool(prompt.stop))
            self._send(id=self._requests, fields=self._wording.fields(prompt))

    def statistics(self) -> Mapping[str, Any]:
        """Return counts of requests since this was last asked, and which model the servers named."""
        counts, self._counts = self._counts, Counts()
        return {"batching": "server", "served_model": self._model, **counts.values()}

    def _send(self, **message: Any) -> None:
        assert self._process
        self._process.line.sendall(json.dumps(message).encode() + b"\n")

    def _hear(self) -> None:
        """Pass on what the other process tells, until it ends; what is then unanswered fails."""
        with self._heard:
            for line in self._heard:
                message = json.loads(line)
                number = message["id"]
                if "first" in message:
                    self._give_first(self._asked[number], message["first"])
                else:
                    self._give(self._asked.pop(number), message)
                way_ns = time.monotonic_ns() - message["at_ns"]
                self._counts.longest_way_ns = max(self._counts.longest_way_ns, way_ns)
        for asked in list(self._asked.values()):
            asked.reply.fail(asked.samples, "the process that talks to servers ended")

    def _give_first(self, asked: _Asked, part: Any) -> None:
        if tokens := self._wording.tokens(part, is_finished=False)[:1]:  # text can be less than a token
            asked.first = part
            asked.reply.first_token(asked.samples, np.array([tokens], self._program.reply.dtype))

    def _give(self, asked: _Asked, message: Mapping[str, Any]) -> None:
        counts = self._counts
        counts.retried += message["attempts"] - 1
        if "failed" in message:
            counts.failed += 1
            asked.reply.fail(asked.samples, message["failed"])
            return
        is_finished = message["finish"] == "stop"
        tokens = self._wording.tokens(message["answer"], is_finished=is_finished, first=asked.first)
        counts.answered += 1
        counts.prompts_cut_otherwise += message["prompt_tokens"] not in (None, asked.prompt_tokens)
        likely = (None, len(tokens), len(tokens) - asked.may_stop)
        counts.answers_cut_otherwise += message["answer_tokens"] not in likely
        answer = self._program.answer(tokens)
        if asked.first is None:
            asked.reply.first_token(asked.samples, answer[np.newaxis, :1])
        asked.reply.complete(asked.samples, [answer], [len(answer)])
