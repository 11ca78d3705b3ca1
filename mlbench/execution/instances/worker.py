"""The run's side of a process that has an engine: an instance on this machine, or a node on another one."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlbench.contracts.engine import Capacity, Samples
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics, InstanceStatistics
from mlbench.execution.instances.dispatcher import Consumer
from mlbench.execution.instances.messages import Message, numbers
from mlbench.execution.instances.refusals import refusal_in
from mlbench.execution.processes.failures import FailureKind, ProcessEndedError

_UNTRIED = Capacity(batch=1, in_flight=8)


class Worker(ABC):
    """Takes samples. `take_answer` is called by the thread that receives from it, everything else by others."""

    def __init__(self, name: str) -> None:
        """Store its name, as a user reads it."""
        self.name = name
        self.consumer = Consumer(self._give, _UNTRIED)
        """Its consumer in the queue."""
        self.ended = ""
        """Reason of its early end or loss; empty while it serves."""
        self.runtime: RuntimeFacts | None = None
        """The runtime of its engine, once known."""
        self._kind = FailureKind.EXIT
        self._answers: queue.Queue[Message | None] = queue.Queue()

    @abstractmethod
    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; if the process is gone, the thread that receives from it notices."""

    def flush(self) -> None:
        """Flush its engine, behind the samples that it was given."""
        self.send("flush")

    def take_answer(self, message: Message | None) -> None:
        """Hand an answer to the thread that asked; None: there will be no more."""
        self._answers.put(message)

    def wait_for_answer(self) -> Message | None:
        """Wait for the answer to a request; None if the process ended."""
        return self._answers.get()

    @abstractmethod
    def wait_for_report(self) -> Message | None:
        """Wait for the answer to a question, but not for ever; None if the process ended, or does not answer."""

    def check(self, message: Message) -> None:
        """Raise if an answer is a refusal.

        Raises:
            MlbenchError: it is, and a user can act on it.
            ProcessEndedError: it is, because of another error.
        """
        error = refusal_in(message)
        if isinstance(error, ProcessEndedError):
            raise ProcessEndedError(f"{self.name}: {error}", error.kind)
        if error:
            raise error

    def error(self) -> ProcessEndedError:
        """Return its end as an error."""
        return ProcessEndedError(self.ended or f"{self.name} is gone", self._kind)

    def describe(self, counted: EngineStatistics | None) -> InstanceStatistics:
        """Return its part of the statistics: what it counted, or how it ended."""
        return InstanceStatistics(ended="" if counted else self.ended, counted=counted)

    def note_answered(self, count: int) -> None:
        """Do nothing; called with how many samples it has answered or given up."""

    def _give(self, samples: Samples, test: int, is_flushed: bool) -> None:
        keys = numbers(samples.ids), numbers(samples.indices)
        self.send("samples", keys, test=test, is_flushed=is_flushed)
