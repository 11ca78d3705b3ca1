"""An engine over a runtime that generates tokens asynchronously: for backends that run language models themselves."""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np

from mlbench.contracts.engine import Engine, Reply, Samples
from mlbench.contracts.generation import GenerationProgram, Prompt
from mlbench.contracts.model import Model
from mlbench.contracts.statistics import EngineStatistics
from mlbench.errors import MlbenchError, UnavailableError, UsageError, describe_error, first_line
from mlbench.execution.awaited_reply import AwaitedReply
from mlbench.system.guards import undo_on_error
from mlbench.toolkit.event_loop_thread import EventLoopThread
from mlbench.toolkit.streamed_answer import StreamedAnswer

logger = logging.getLogger(__name__)

_LEFT = "the engine was stopped before the answer was whole"


@dataclass(slots=True, eq=False)
class _Request:
    """A sample without an answer so far."""

    samples: Samples
    reply: Reply
    has_begun: bool = False
    """Whether its first token was reported."""


class AsyncGenerationEngine(Engine):
    """Answers each prompt with a task on an event loop, which has a thread of its own.

    A subclass opens and closes the runtime, and generates the tokens for a prompt. This class handles the rest: end
    tokens, lengths and stop sequences by the workload's rules, first tokens, counts, and exactly one completion or
    failure of each sample, whatever the runtime raises and whenever the engine is left.
    """

    name: str
    """Name of the backend, for messages and the record."""
    patience_s: float = 10.0
    """Time for requests to end after the engine was left and they were cancelled."""

    def __init__(self, model: Model) -> None:
        """Store the model's program, and the folder of its files; nothing is loaded.

        Raises:
            UsageError: it is not a language model, is answered by beam search, or has no files.
        """
        if not isinstance(model.program, GenerationProgram):
            raise UsageError(
                f"{self.name} cannot run {model.name}: it is for language models.",
                hint="Choose one, such as llama2-70b.",
            )
        if (beams := model.program.decoding.beams) > 1:
            raise UsageError(
                f"{self.name} cannot run {model.name}: its {beams} beams end early and are scored by new tokens, and "
                f"{self.name} decodes greedily.",
                hint="Choose another backend: `mlbench list`.",
            )
        if model.files is None:
            raise UsageError(
                f"{self.name} reads a model's files, and {model.name} has none.", hint="Use trained weights."
            )
        self.program = model.program
        self.folder = model.files
        self._loop: EventLoopThread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._unanswered: set[_Request] = set()
        self._counts = {"answered": 0, "failed": 0, "answer_tokens": 0}

    async def open(self) -> None:
        """Load the model. Its errors become `UnavailableError`; `close` is not called then."""

    async def close(self) -> None:
        """Free the resources of `open`; no request is open then."""

    @abstractmethod
    def generate(self, prompt: Prompt) -> AsyncIterator[Sequence[int]]:
        """Yield the tokens that follow a prompt as they are computed, one or several at a time, end tokens included.

        Greedily, and by ``self.program.decoding``: no end token before ``min_new_tokens``. Write it as an asynchronous
        generator. It is closed when the answer is complete, so it need not detect the end, and cancelled when the
        engine is left. An error fails the sample; so does an end without an end token. It must not block the loop: use
        ``await asyncio.to_thread(...)`` for computation.
        """

    def __enter__(self) -> Self:
        """Open the runtime.

        Raises:
            UnavailableError: it does not open.
        """
        self._loop = EventLoopThread(f"mlbench-{self.name}")
        with undo_on_error(partial(self._end, self._loop)):
            self._loop.call(self._await(self.open, "start"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel and fail open requests, and close the runtime.

        Raises:
            UnavailableError: it does not close, and there was no other error.
        """
        assert self._loop
        with self._lock:
            loop, self._loop = self._loop, None
        try:
            self._stop(loop)
        except MlbenchError:
            if error is None:
                raise
            logger.exception("%s does not stop", self.name)  # what went wrong before says more
        finally:
            self._end(loop)

    def warm_up(self, samples: Samples) -> None:
        """Ask for these answers, and drop them.

        Raises:
            UnavailableError: one fails.
        """
        reply = AwaitedReply(len(samples))
        self.submit(samples, reply)
        reply.wait()
        if reply.failure:
            raise UnavailableError(f"{reply.failure}.", hint=f"{self.name} failed in warm-up; see its log.")
        self._take_counts()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Hand the samples to the event loop."""
        requests = [_Request(samples[place : place + 1], reply) for place in range(len(samples))]
        with self._lock:
            if self._loop is None:
                raise RuntimeError("the engine is used outside its with block")
            self._unanswered.update(requests)
            self._loop.post(self._begin, requests)

    def statistics(self) -> EngineStatistics:
        """Return counts of answers since the last call; a subclass adds its own to ``extra``."""
        counts = self._take_counts()
        return EngineStatistics(batching=self.name, samples=counts["answered"], extra=counts)

    def _begin(self, requests: Sequence[_Request]) -> None:
        """Start a task for each request."""
        for request in requests:
            task = asyncio.create_task(self._serve(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, request: _Request) -> None:
        """Complete a sample or fail it; then close its stream, which ends the request in the runtime too."""
        stream: AsyncIterator[Sequence[int]] | None = None
        try:
            (sample,) = request.samples.data()
            answer = StreamedAnswer(self.program.prompt(sample), self.program.decoding)
            self._report_first(request, answer)
            if not answer.is_over:
                stream = self.generate(answer.prompt)
                async for tokens in stream:
                    answer.add(tokens)
                    self._report_first(request, answer)
                    if answer.is_over:
                        break
            output = self.program.answer(answer.result())
            count = len(output)
        except BaseException as error:  # the runtime's code and the workload's: SystemExit too fails this sample alone
            is_left = self._loop is None and isinstance(error, asyncio.CancelledError)
            self._fail(request, _LEFT if is_left else _reason(error))
            if isinstance(error, GeneratorExit):  # the task itself was left and is destroyed: it may not wait
                raise
        else:
            if self._settle(request, answered=1, answer_tokens=len(answer.tokens)):
                request.reply.complete(request.samples, [output], [count])
        if isinstance(stream, AsyncGenerator):
            await self._close_stream(stream)

    async def _close_stream(self, stream: AsyncGenerator[Sequence[int], None]) -> None:
        try:
            await stream.aclose()
        except GeneratorExit:  # the task was left meanwhile, and is destroyed
            raise
        except BaseException:  # the sample is answered or failed already
            logger.exception("%s: a request could not be closed", self.name)

    def _report_first(self, request: _Request, answer: StreamedAnswer) -> None:
        """Report the first token as soon as there is one, once."""
        if answer.tokens and not request.has_begun:
            request.has_begun = True
            if request in self._unanswered:
                first = np.array([answer.tokens[:1]], self.program.reply.dtype)
                request.reply.first_token(request.samples, first)

    def _fail(self, request: _Request, reason: str) -> None:
        if self._settle(request, failed=1):
            request.reply.fail(request.samples, reason)

    def _settle(self, request: _Request, **counts: int) -> bool:
        """Return whether a sample was still open; it no longer is, and is counted."""
        with self._lock:
            if request not in self._unanswered:
                return False
            self._unanswered.remove(request)
            for name, count in counts.items():
                self._counts[name] += count
            return True

    def _take_counts(self) -> dict[str, int]:
        with self._lock:
            counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        return counts

    async def _await(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        """Await a method of the subclass; its errors become `UnavailableError`."""
        try:
            await work()
        except MlbenchError:
            raise
        except BaseException as error:  # SystemExit too
            failure = f"{self.name} does not {what}: {_reason(error)}."
            raise UnavailableError(failure, hint="See its log.") from error

    def _stop(self, loop: EventLoopThread) -> None:
        """Cancel open requests, and close the runtime once none of them computes."""
        try:
            loop.call(self._cancel(), 2 * self.patience_s)
            has_ended = loop.drain(self.patience_s)
        except TimeoutError:
            has_ended = False
        if not has_ended:
            raise UnavailableError(
                f"{self.name} does not stop: a request has blocked it for {self.patience_s:g} s.",
                hint="`generate` must not block the event loop, and its threads must end.",
            )
        loop.call(self._await(self.close, "stop"))

    async def _cancel(self) -> None:
        """Cancel requests, and wait for them for a while."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stubborn = await asyncio.wait(self._tasks, timeout=self.patience_s)
            if stubborn:
                logger.warning("%s: %d requests go on after they were cancelled", self.name, len(stubborn))

    def _end(self, loop: EventLoopThread) -> None:
        """End the event loop, and fail its open requests."""
        loop.stop(self.patience_s)
        self._loop = None
        for request in [*self._unanswered]:
            self._fail(request, _LEFT)


def _reason(error: BaseException) -> str:
    """Return an error's message in a line; for other than `Exception`, such as SystemExit, with its class."""
    return first_line(error) if isinstance(error, Exception) else describe_error(error)
