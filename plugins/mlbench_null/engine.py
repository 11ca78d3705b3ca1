"""Engines that answer by a script, at once or after delays."""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Protocol, Self

from mlbench import Engine, Reply, Samples

Give = Callable[[Samples, Reply], None]
"""Answers samples, or reports their first tokens."""


class Script(Protocol):
    """A script of answers, with their times."""

    def acts(self, samples: Samples, /) -> Iterable[tuple[int, Samples, Give]]:
        """Return the steps for the samples of a query, in order: nanoseconds after its arrival, samples, action."""

    def give(self, samples: Samples, reply: Reply, /) -> None:
        """Perform all actions at once."""


class NullEngine(Engine):
    """Answers on the thread that submits."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Answer at once."""
        self._script.give(samples, reply)

    def replay_graphs(self) -> str:
        """Do nothing: nothing is computed."""
        return ""


@dataclass(order=True, slots=True)
class _Act:
    due_ns: int
    number: int
    samples: Samples = field(compare=False)
    reply: Reply = field(compare=False)
    give: Give = field(compare=False)


class DelayedEngine(Engine):
    """Answers from one thread, each sample when it is due; ties in order of arrival."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._numbers = count()
        self._inbox: queue.Queue[_Act | None] = queue.Queue()
        self._thread = threading.Thread(target=self._answer_when_due, name="mlbench-null", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread, which outlives the test that it answers."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread; answers not yet due are dropped."""
        self._inbox.put(None)
        self._thread.join()

    def replay_graphs(self) -> str:
        """Return the reason why its delays cannot be skipped."""
        return "the configured delays of the null backend are not overhead of mlbench"

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Schedule the answers."""
        arrived_ns = time.monotonic_ns()
        for after_ns, part, give in self._script.acts(samples):
            self._inbox.put(_Act(arrived_ns + after_ns, next(self._numbers), part, reply, give))

    def _answer_when_due(self) -> None:
        waiting: list[_Act] = []
        while True:
            remaining_ns = waiting[0].due_ns - time.monotonic_ns() if waiting else None
            if remaining_ns is not None and remaining_ns <= 0:
                act = heapq.heappop(waiting)
                act.give(act.samples, act.reply)
                continue
            try:
                message = self._inbox.get(timeout=remaining_ns and remaining_ns / 1e9)
            except queue.Empty:
                continue
            if message is None:
                return
            heapq.heappush(waiting, message)
