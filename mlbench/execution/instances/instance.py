"""The run's side of an instance: its process, requests to it, and how it ended."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlbench.contracts.statistics import EngineStatistics, InstanceStatistics
from mlbench.execution.cores import Core
from mlbench.execution.instances.messages import Line, Message, NoMessageError
from mlbench.execution.instances.worker import Worker
from mlbench.execution.processes.failures import describe_exit
from mlbench.execution.processes.patience import Silence
from mlbench.execution.processes.side_process import SideProcess
from mlbench.execution.processes.usage import oom_kills_so_far

_ENDS_WITHIN_S = 10.0
_ANSWERS_WITHIN_S = 30.0
_PULSE_S = 0.5


class Instance(Worker):
    """A process with an engine, on this machine."""

    def __init__(self, number: int, of: int, cores: Sequence[Core], device: str = "") -> None:
        """Start its process on these cores, where it sees one device alone, if one is named."""
        super().__init__(f"instance {number} of {of}")
        self._killed = ""
        self._oom_kills = oom_kills_so_far()
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

    def receive_arrived(self, take: Callable[[Message], None]) -> bool:
        """Hand on the messages that have arrived; False when the instance is gone, or was killed for an invalid one."""
        try:
            return self.line.receive_arrived(take)
        except NoMessageError as error:
            self.kill(f"sent an invalid message ({error}), and was killed")
            return False

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
        answers: list[Message] = []
        while not answers and self.receive_arrived(answers.append):
            pass
        if not answers:
            self.note_end()
            raise self.error()
        self.check(answers[0])
        processors: Sequence[int] = answers[0].facts["processors"]
        return processors

    def wait_for_report(self) -> Message | None:
        """Wait for the answer to a question; None if the instance ended, by itself or killed for not answering."""
        silence = Silence(self._process.tree())
        while True:
            try:
                return self._answers.get(timeout=min(_PULSE_S, _ANSWERS_WITHIN_S))
            except queue.Empty:
                if silence.is_hang(_ANSWERS_WITHIN_S, self._process.tree()):
                    self.kill(f"did not answer for {_ANSWERS_WITHIN_S:g} s, and was killed")
                    return self._answers.get()

    def note_end(self) -> None:
        """Determine how a process ended that closed its socket."""
        self._kind, how = describe_exit(self._process.wait(_ENDS_WITHIN_S), self._oom_kills)
        self.ended = f"{self.name} {self._killed or how}"

    def describe(self, counted: EngineStatistics | None) -> InstanceStatistics:
        """Return its part of the statistics, with where it runs."""
        return replace(super().describe(counted), processors=self.processors, device=self.device)

    def hang_up(self) -> None:
        """Ask it to exit."""
        self._process.hang_up()

    def wait(self, patience_s: float) -> None:
        """Wait until it is gone; kill it if it takes too long."""
        self._process.wait(patience_s)

    def close(self) -> None:
        """Close the socket."""
        self._process.line.close()
