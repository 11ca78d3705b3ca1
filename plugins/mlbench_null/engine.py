"""Engines that answer zeros, at once or after a set delay."""

from __future__ import annotations

import queue
import threading
import time
from types import TracebackType
from typing import Self

import numpy as np

from mlbench import Engine, Reply, ReplySpec, Samples

LARGEST_ANSWER_BYTES = 1 << 24
"""Of one call of `Reply.complete`; a query with a longer answer is answered in parts."""


class Zeros:
    """Answers made in advance and given again and again; nobody writes to them."""

    def __init__(self, reply: ReplySpec) -> None:
        shape = tuple(size or 1 for size in reply.shape)
        self._one = np.zeros((1, *shape), dtype=reply.dtype)
        self._most = max(1, LARGEST_ANSWER_BYTES // max(1, self._one.nbytes))
        self._zeros = self._one

    def give(self, samples: Samples, reply: Reply) -> None:
        """Answer all samples, in as few calls as the size of an answer allows."""
        count = len(samples.ids)
        if count == 1:
            reply.complete(samples, self._one)
            return
        if count > len(self._zeros):
            self._zeros = np.zeros((min(count, self._most), *self._one.shape[1:]), dtype=self._one.dtype)
        zeros = self._zeros
        if count <= len(zeros):
            reply.complete(samples, zeros[:count])
            return
        for start in range(0, count, len(zeros)):
            part = samples[start : start + len(zeros)]
            reply.complete(part, zeros[: len(part)])


class NullEngine(Engine):
    """Answers on the thread that submits."""

    def __init__(self, answers: Zeros) -> None:
        self._answers = answers

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Answer at once."""
        self._answers.give(samples, reply)


class DelayedEngine(Engine):
    """Answers from one thread, each query its delay after it came: the first in is the first out."""

    def __init__(self, answers: Zeros, delay_ns: int) -> None:
        self._answers = answers
        self._delay_ns = delay_ns
        self._waiting: queue.SimpleQueue[tuple[int, Samples, Reply] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._answer_when_due, name="mlbench-null", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread, which outlives the test that it answers."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread; what is not due yet stays unanswered."""
        self._closed.set()
        self._waiting.put(None)
        self._thread.join()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Note when the samples are due."""
        self._waiting.put((time.monotonic_ns() + self._delay_ns, samples, reply))

    def _answer_when_due(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            due_ns, samples, reply = waiting
            remaining_ns = due_ns - time.monotonic_ns()
            if remaining_ns > 0 and self._closed.wait(remaining_ns / 1e9):
                return
            self._answers.give(samples, reply)
