"""The run's side of an instance: its process, requests to it, and how it ended."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlbench.contracts.engine import Capacity, Samples
from mlbench.execution.cores import Core
from mlbench.execution.instances.dispatcher import Consumer
from mlbench.execution.instances.messages import Line, Message, NoMessageError, numbers
from mlbench.execution.processes.failures import (
    FailureKind,
    ProcessEndedError,
    describe_exit,
    error_from_wire,
    report_from_values,
)
from mlbench.execution.processes.patience import Silence
from mlbench.execution.processes.side_process import SideProcess
from mlbench.execution.processes.usage import oom_kills_so_far

_ENDS_WITHIN_S = 10.0
_ANSWERS_WITHIN_S = 30.0
_PULSE_S = 0.5
_UNTRIED = Capacity(batch=1, in_flight=8)


class Instance:
    """A process with an engine. `answer` is called by the receiving thread, everything else by others."""

    def __init__(self, number: int, of: int, cores: Sequence[Core], device: str = "") -> None:
        """Start its process on these cores, where it sees one device alone, if one is named."""
        self.number = number
        self.name = f"instance {number} of {of}"
        self.consumer = Consumer(self._give, _UNTRIED)
        """Its consumer in the queue."""
        self.ended = ""
        """Reason of an early end; empty while it runs."""
        self._kind = FailureKind.EXIT
        self._killed = ""
        self._oom_kills = oom_kills_so_far()
        self._answers: queue.Queue[Message | None] = queue.Queue()
        self.processors = sorted(number for core in cores for number in core.processors)
        self.device = device
        self._process = SideProcess(
            "mlbench.execution.instances", self.name.replace(" ", "-"), ",".join(map(str, self.processors)), device
        )
        self.line = Line(self._process.line)

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; if the process is gone, the receiving thread notices."""
        try:
            self.line.send(kind, arrays, **facts)
        except OSError:
            pass

    def receive(self) -> Message | None:
        """Wait for the next message; None when the instance is gone, or was killed for an invalid one."""
        try:
            return self.line.receive()
        except NoMessageError as error:
            self.kill(f"sent an invalid message ({error}), and was killed")
            return None

    def kill(self, why: str) -> None:
        """End it, and store why, as a predicate that follows its name."""
        self._killed = self._killed or why
        self._process.kill()

    def started(self) -> Sequence[int]:
        """Wait until it has made its engine; return the processors it is pinned to.

        Called before the receiving thread starts.

        Raises:
            MlbenchError: it cannot, and a user can act on that.
            ProcessEndedError: it cannot for another reason, or it ended.
        """
        message = self.receive()
        if message is None:
            self.note_end()
            raise self.error()
        self.check(message)
        processors: Sequence[int] = message.facts["processors"]
        return processors

    def answer(self, message: Message | None) -> None:
        """Hand an answer to the thread that asked; None: there will be no more."""
        self._answers.put(message)

    def answered(self, *, is_patient: bool) -> Message | None:
        """Wait for the answer to a request; None if the instance ended, by itself or killed for not answering."""
        if is_patient:
            return self._answers.get()
        silence = Silence(self._process.tree())
        while True:
            try:
                return self._answers.get(timeout=min(_PULSE_S, _ANSWERS_WITHIN_S))
            except queue.Empty:
                if silence.is_hang(_ANSWERS_WITHIN_S, self._process.tree()):
                    self.kill(f"did not answer for {_ANSWERS_WITHIN_S:g} s, and was killed")
                    return self._answers.get()

    def check(self, message: Message) -> None:
        """Raise if an answer is a refusal.

        Raises:
            MlbenchError: it is, and a user can act on it.
            ProcessEndedError: it is, because of another error.
        """
        if message.kind == "refused":
            error = error_from_wire(report_from_values(message.facts.get("error")))
            if isinstance(error, ProcessEndedError):
                raise ProcessEndedError(f"{self.name}: {error}", error.kind)
            raise error

    def note_end(self) -> None:
        """Determine how a process ended that closed its socket."""
        self._kind, how = describe_exit(self._process.wait(_ENDS_WITHIN_S), self._oom_kills)
        self.ended = f"{self.name} {self._killed or how}"

    def error(self) -> ProcessEndedError:
        """Return its end as an error."""
        return ProcessEndedError(self.ended, self._kind)

    def hang_up(self) -> None:
        """Ask it to exit."""
        self._process.hang_up()

    def wait(self, patience_s: float) -> None:
        """Wait until it is gone; kill it if it takes too long."""
        self._process.wait(patience_s)

    def close(self) -> None:
        """Close the socket."""
        self._process.line.close()

    def _give(self, samples: Samples, test: int, is_flushed: bool) -> None:
        keys = numbers(samples.ids), numbers(samples.indices)
        self.send("samples", keys, test=test, is_flushed=is_flushed)
