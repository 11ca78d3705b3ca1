"""Two runs' engines that compute alternately, each in a process of its own, both on one processor.

Neighbours, the clock and the caches change from second to second, and so does the processor time of the same work. Two
engines that take turns of some milliseconds see the same changes: the ratio of their times repeats several times more
closely than either (docs/processor-time.md).
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import fmean
from types import TracebackType
from typing import Self

from mlbench.records.job_spec import JobSpec
from mlbench.records.machine.processor_time import SideBySideRecord

_ROUNDS, _LEAST_ROUNDS = 40, 4
_LONGEST_S = 12.0
_PATIENCE_S = 40.0
"""For a partner that makes its engine, or computes a turn."""
_APART_S = 0.1
_ASK = b"?"
_NUMBER = struct.Struct("!d")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorTimeRequest:
    """A run whose processor time is to be counted."""

    spec: JobSpec
    meeting: str = ""
    """Path of a socket where the two processes of a pair meet; empty: it is counted alone."""
    partner: str = ""
    """Id of the other run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsTaken:
    """How often a partner computed."""

    count: int


class Listener:
    """The partner's end: computes whenever it is asked to."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._path = path

    def __enter__(self) -> Self:
        """Begin to listen, so that the other process finds it while the engine is made."""
        self._socket.settimeout(_PATIENCE_S)
        self._socket.bind(self._path)
        self._socket.listen(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def answer(self, turn_ns: Callable[[], float]) -> int:
        """Answer each question with the processor time of a turn, until the other process hangs up; count them."""
        connection, _ = self._socket.accept()
        count = 0
        with connection:
            connection.settimeout(_PATIENCE_S)
            while connection.recv(1) == _ASK:
                connection.sendall(_NUMBER.pack(turn_ns()))
                count += 1
        return count


class Partner:
    """The process of the other run, as this run's sees it: its engine is warm, and waits."""

    def __init__(self, connection: socket.socket, run_id: str) -> None:
        """Wait for a first turn.

        Raises:
            OSError: it has ended, or takes too long.
        """
        self._connection = connection
        self._run_id = run_id
        self._turn_ns()

    def alternate(self, turn_ns: Callable[[], float]) -> SideBySideRecord | None:
        """Take turns, A B B A, and return the processor time of both; None where the partner ends meanwhile.

        Args:
            turn_ns: computes for some milliseconds, and returns the processor time per sample or token.
        """
        own_ns, other_ns = list[float](), list[float]()
        ends_s = time.monotonic() + _LONGEST_S
        try:
            while len(own_ns) < _LEAST_ROUNDS or (len(own_ns) < _ROUNDS and time.monotonic() < ends_s):
                if is_second := len(own_ns) % 2 == 1:
                    other_ns.append(self._turn_ns())
                own_ns.append(turn_ns())
                if not is_second:
                    other_ns.append(self._turn_ns())
        except OSError as error:
            logger.info("%s has ended while it computed beside this run: %s", self._run_id, error)
            return None
        return SideBySideRecord(run_id=self._run_id, own_ns=fmean(own_ns), other_ns=fmean(other_ns), rounds=len(own_ns))

    def _turn_ns(self) -> float:
        self._connection.sendall(_ASK)
        answer = self._connection.recv(_NUMBER.size, socket.MSG_WAITALL)
        if len(answer) < _NUMBER.size:
            raise ConnectionError("it has hung up")
        found: float = _NUMBER.unpack(answer)[0]
        return found


@contextmanager
def meet(request: ProcessorTimeRequest) -> Iterator[Partner | None]:
    """Yield the partner once its engine is ready; None where none was asked for, or it does not come."""
    with ExitStack() as stack:
        partner = None
        if request.meeting:
            try:
                partner = Partner(stack.enter_context(_connect(request.meeting)), request.partner)
            except OSError as error:  # the other process says the reason itself, in the same log
                logger.info("%s does not compute beside this run: %s", request.partner, error)
        yield partner


def _connect(path: str) -> socket.socket:
    """Return a connection to a partner that has begun or soon will."""
    ends_s = time.monotonic() + _PATIENCE_S
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE_S)
    while True:
        try:
            connection.connect(path)
        except FileNotFoundError:
            if time.monotonic() > ends_s:
                connection.close()
                raise
            time.sleep(_APART_S)
        else:
            return connection
