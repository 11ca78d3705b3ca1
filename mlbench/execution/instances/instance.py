"""The run's side of an instance: its process, what is asked of it, and how it ended."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlbench.contracts.engine import Appetite, Samples
from mlbench.execution.cores import Core
from mlbench.execution.instances.messages import Line, Message, numbers
from mlbench.execution.instances.sharing_out import Taker
from mlbench.execution.isolation import FailureKind, ProcessEndedError, ending, oom_kills_so_far, raise_told
from mlbench.execution.side_process import SideProcess

_ENDS_WITHIN_S = 10.0
_ANSWERS_WITHIN_S = 30.0
_UNTRIED = Appetite(together=1, most=8)


class Instance:
    """A process with an engine. `answer` is called by the thread that listens to it, all else by others."""

    def __init__(self, number: int, of: int, cores: Sequence[Core]) -> None:
        self.number = number
        self.name = f"instance {number} of {of}"
        self.taker = Taker(self._give, _UNTRIED)
        """Its place at the queue."""
        self.ended = ""
        """How it came to its end before it was to; empty while it serves."""
        self._kind = FailureKind.EXIT
        self._is_silent = False
        self._oom_kills = oom_kills_so_far()
        self._answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.processors = sorted(number for core in cores for number in core.processors)
        self._process = SideProcess(
            "mlbench.execution.instances", self.name.replace(" ", "-"), ",".join(map(str, self.processors))
        )
        self.line = Line(self._process.line)

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; to one that is gone, in vain: whoever listens learns of it."""
        try:
            self.line.send(kind, arrays, **facts)
        except OSError:
            pass

    def started(self) -> Sequence[int]:
        """Wait until it has made its engine; return the processors that it keeps to. Called before anyone listens.

        Raises:
            MlbenchError: it cannot, and a user can act on that.
            ProcessEndedError: it cannot for another reason, or came to its end.
        """
        message = self.line.receive()
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
        """Wait for the answer to what was asked; None when the instance ended, of itself or because it kept silent."""
        try:
            return self._answers.get(timeout=None if is_patient else _ANSWERS_WITHIN_S)
        except queue.Empty:
            self._is_silent = True
            self._process.wait(0)
            return self._answers.get()

    def check(self, message: Message) -> None:
        """Look whether an answer is a refusal.

        Raises:
            MlbenchError: it is, and a user can act on it.
            ProcessEndedError: it is, because of another error.
        """
        if message.kind == "refused":
            try:
                raise_told(message.facts["error"])
            except ProcessEndedError as error:
                raise ProcessEndedError(f"{self.name}: {error}", error.kind) from None

    def note_end(self) -> None:
        """Find out how the process ended, which has hung up."""
        self._kind, how = ending(self._process.wait(_ENDS_WITHIN_S), self._oom_kills)
        silent = f"did not answer for {_ANSWERS_WITHIN_S:g} s, and was killed"
        self.ended = f"{self.name} {silent if self._is_silent else how}"

    def error(self) -> ProcessEndedError:
        """Return how it ended as an error."""
        return ProcessEndedError(self.ended, self._kind)

    def hang_up(self) -> None:
        """Let it leave."""
        self._process.hang_up()

    def wait(self, patience_s: float) -> None:
        """Return when it is gone; kill it if it takes longer."""
        self._process.wait(patience_s)

    def close(self) -> None:
        """Forget the line."""
        self._process.line.close()

    def _give(self, samples: Samples, test: int, is_flushed: bool) -> None:
        self.send("samples", [numbers(samples.indices)], test=test, first=samples.ids[0], is_flushed=is_flushed)
