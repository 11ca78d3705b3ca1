"""A child process under a supervisor: the parent's side."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from mlbench.execution.processes import supervisor
from mlbench.execution.processes.bounded_log import BoundedLog
from mlbench.execution.processes.fork_server import ForkedProcess, ForkRequest, NoForkError, fork_server
from mlbench.execution.processes.usage import process_tree
from mlbench.system.guards import undo_on_error

if TYPE_CHECKING:
    import psutil

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_MARK = "MLBENCH_RUN_MARK"
"""Environment variable of the run's process, inherited by its descendants."""
_END_WITHIN_S = supervisor.END_WITHIN_S + 5.0
"""For the supervisor to end what it watches over, and itself."""


class SupervisedProcess:
    """Runs ``processes.child`` for a function; all its descendants are gone when this context is left."""

    def __init__(
        self,
        function: str,
        start: Mapping[str, Any],
        log: Path,
        modules: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, on the processors that this thread may use.

        Args:
            function: ``module:function``.
            start: given to the child on its standard input.
            log: gets what it prints, up to a bound.
            modules: which it loads; with any it is a fork of a process that has imported them, where that works.
            variables: its environment's, besides those of this process.

        Raises:
            OSError: it cannot be started.
        """
        self.log = BoundedLog(log)
        self.messages, write_end = os.pipe()
        """The pipe's end to read from, which does not block."""
        os.set_blocking(self.messages, False)
        self.control, theirs = socket.socketpair()
        """Can be read when the child has ended; see `note_end`."""
        self.control.setblocking(False)
        self._mark = secrets.token_hex(16)
        self._variables = variables or {}
        try:
            with undo_on_error(self._close), theirs, _nameless_file(json.dumps(start).encode()) as stdin:
                descriptors = (stdin.fileno(), self.log.fileno(), theirs.fileno(), write_end)
                self._supervisor = self._fork(function, modules, descriptors) or self._spawn(function, descriptors)
        finally:
            os.close(write_end)
        self.has_ended = False
        """Whether it is gone, with all that it started."""
        self.status: int | None = None
        """How the child ended, as `subprocess` has it; None: it has not, or its supervisor could not say."""
        self._end_by_s = float("inf")
        self._seen: list[psutil.Process] = []

    def _fork(self, function: str, modules: Sequence[str], descriptors: Sequence[int]) -> ForkedProcess | None:
        """Start it from a process that has imported some modules; None where that is not possible."""
        environment = {**os.environ, **self._variables, _MARK: self._mark}
        try:
            server = fork_server(modules, self._variables)
            request = ForkRequest(function=function, environment=environment, folder=os.getcwd())
            return server.start(request, descriptors) if server else None
        except OSError as error:
            # some modules can only be imported by each run itself: no fault, unlike a server that ended
            level = logging.INFO if isinstance(error, NoForkError) else logging.WARNING
            message = "a run's process is a new interpreter and no fork of one with %s: %s"
            logger.log(level, message, ", ".join(modules), error)
            return None

    def _spawn(self, function: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
        """Start it in a new interpreter.

        Raises:
            OSError: it cannot be started.
        """
        stdin, log, control, messages = descriptors
        child = [sys.executable, "-P", "-m", "mlbench.execution.processes.child", function, str(messages)]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(control), str(messages), *child],
            stdin=stdin,
            stdout=log,
            stderr=log,
            pass_fds=[control, messages],
            env={**os.environ, **self._variables, _MARK: self._mark},
            start_new_session=True,
        )

    def tree(self) -> list[psutil.Process]:
        """Return the supervisor, and all processes below it; when it is gone, those that were there last."""
        tree = process_tree(self._supervisor.pid)
        if len(tree) > 1:  # one that was killed stays for a moment, with nothing below it
            self._seen = tree
        return self._seen

    def read(self) -> bytes | None:
        """Return the data in the pipe; empty at its end, None if there is nothing now."""
        try:
            return os.read(self.messages, _CHUNK_BYTES)
        except BlockingIOError:
            return None

    def note_end(self) -> None:
        """Take the supervisor's report, which it makes when all is gone; call it when `control` can be read."""
        try:
            report = self.control.recv(64).strip()
        except BlockingIOError:
            return
        except OSError:
            report = b""
        self.has_ended = True
        self.status = int(report) if report else None

    def end(self) -> None:
        """Ask the supervisor to end all processes, which takes a moment."""
        if self._end_by_s == float("inf"):
            self.tree()
            self._end_by_s = time.monotonic() + _END_WITHIN_S
            self._hang_up()

    def give_up(self) -> None:
        """Count it as ended if that was requested long ago: the kernel does not release some process."""
        if time.monotonic() > self._end_by_s:
            self.has_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        try:
            self._supervisor.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        if self.status is None:  # perhaps the supervisor was killed, and what was below it is not below it any more
            self._kill_orphans()
        self.log.cut()
        self._close()

    def _close(self) -> None:
        self.control.close()
        os.close(self.messages)
        self.log.close()

    def _hang_up(self) -> None:
        try:
            self.control.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the supervisor is gone

    def _kill_orphans(self) -> None:
        """Kill the known descendants of the supervisor, and processes marked with this run's variable."""
        import psutil

        orphans = [*self._seen, *self._find_marked()]
        until_s = time.monotonic() + supervisor.END_WITHIN_S
        while orphans and time.monotonic() < until_s:
            for process in orphans:
                with contextlib.suppress(psutil.Error):
                    process.kill()  # looks whether the number is still that of the same process
            orphans = list(self._find_marked())

    def _find_marked(self) -> Iterator[psutil.Process]:
        import psutil

        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # another user's, or gone
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    yield process


def _nameless_file(content: bytes) -> IO[bytes]:
    """Return a file with some content, to be read from its start; unlike a pipe it can be filled without a reader."""
    file = os.fdopen(os.memfd_create("start"), "w+b")
    try:
        file.write(content)
        file.seek(0)
    except OSError:
        with contextlib.suppress(OSError):  # it tries to write once more
            file.close()
        raise
    return file
