"""A process that has imported what runs need, and forks for each: the parent's side.

Importing a framework takes longer than many a smoke run. The runs of one command share that, and nothing else: each is
a fork of a process that has only imported, before any of it computes. See docs/decisions/0031.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

HEADER = struct.Struct("!cI")
"""Begins a message to the server: its kind, and how many bytes follow or which process it is about."""
START, RELEASE = b"S", b"R"
FORKED = struct.Struct("!II")
"""The answer: the forked process, or 0 and the number of the error."""
REFUSES = 3
"""The server's exit status where a fork would not be as a new interpreter: an import started a thread or opened a
device."""
DESCRIPTORS = 4
"""Passed with a start: standard input, the log, the control socket and the message pipe."""

_IMPORT_WITHIN_S = 600.0
_LEAVES_WITHIN_S = 1.0
_MOST_SERVERS = 3
_OF_ONE_RUN = ("MLBENCH_", "PYTEST_", "HF_TOKEN", "COLUMNS", "LINES")
"""Variables that a run reads when it needs them; others may matter to what was imported."""
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """What a forked process does; `mlbench.execution.child` does it."""

    function: str
    """``module:function``."""
    environment: Mapping[str, str]
    folder: str
    """The current folder."""


class ForkServer:
    """Starts supervised processes as forks of one that has imported some modules."""

    def __init__(self, modules: Sequence[str], variables: Mapping[str, str]) -> None:
        """Start the server, which imports them, with these variables besides those of this process.

        Raises:
            OSError: it cannot be started.
        """
        self._conditions = _conditions()
        self._line, theirs = socket.socketpair()
        self._line.settimeout(_IMPORT_WITHIN_S)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mlbench.execution.fork_server_main", str(number), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number],
                env={**os.environ, **variables},
                start_new_session=True,
            )
        self._lock = threading.Lock()

    def is_outdated(self) -> bool:
        """Return whether it was killed, or a fork of it would not be as a new interpreter that is started here."""
        return self._process.poll() not in (None, REFUSES) or self._conditions != _conditions()

    def refuses(self) -> bool:
        """Return whether its modules cannot be imported before a fork."""
        return self._process.poll() == REFUSES

    def start(self, request: ForkRequest, descriptors: Sequence[int]) -> ForkedSupervisor:
        """Fork a supervisor, which forks the process itself, and return the supervisor.

        Raises:
            OSError: there is none: the server was ended, or the machine is out of memory or processes.
        """
        body = json.dumps(asdict(request)).encode()
        with self._lock:
            try:
                socket.send_fds(self._line, [HEADER.pack(START, len(body))], list(descriptors))
                self._line.sendall(body)
                answer = self._line.recv(FORKED.size, socket.MSG_WAITALL)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            except BaseException:  # an answer may still come, which would be taken for that to the next request
                self.close()
                raise
        if len(answer) < FORKED.size:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it is about to leave
                self._process.wait(_LEAVES_WITHIN_S)
            why = "importing them starts a thread or opens a device" if self.refuses() else "the server of forks ended"
            raise OSError(why)
        pid, number = FORKED.unpack(answer)
        if not pid:
            raise OSError(number, os.strerror(number))
        return ForkedSupervisor(self, pid)

    def release(self, pid: int) -> None:
        """Let the server reap a supervisor that has ended, and end what it left."""
        with self._lock, contextlib.suppress(OSError):
            self._line.sendall(HEADER.pack(RELEASE, pid))

    def close(self) -> None:
        """End the server; processes that it forked go on."""
        self._line.close()
        try:
            self._process.wait(_LEAVES_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkedSupervisor:
    """A supervisor that a server forked, with what `subprocess.Popen` has of one that this process started."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)  # it is not reaped, and its number not given away, before its release

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and let it go; return 0.

        Raises:
            subprocess.TimeoutExpired: it has not ended after ``timeout`` seconds.
        """
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("supervisor", timeout or 0.0)
        os.close(self._descriptor)
        self._server.release(self.pid)
        return 0

    def kill(self) -> None:
        """Kill it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


_Owner = tuple[int, int]
"""A process, since one that was itself forked has servers of its own, and a thread: each has its cores."""

_servers: dict[tuple[_Owner, tuple[str, ...]], ForkServer] = {}
"""By owner and modules; the latest used is the last."""
_servers_lock = threading.Lock()


def fork_server(modules: Sequence[str], variables: Mapping[str, str] = _NO_VARIABLES) -> ForkServer | None:
    """Return this thread's server with some modules imported; None where there is none, and without modules.

    A few are kept: the one that has not been used for longest ends when another is needed.

    Args:
        modules: by name.
        variables: which it has besides those of this process; always the same in one thread.
    """
    if not modules or sys.platform != "linux":
        return None
    owner = (os.getpid(), threading.get_ident())
    key = (owner, tuple(modules))
    with _servers_lock:
        server = _servers.pop(key, None)
        if server and server.is_outdated():
            server.close()
            server = None
        while not server and len(own := _servers_of(owner)) >= _MOST_SERVERS:
            _servers.pop(own[0]).close()
        try:
            _servers[key] = server = server or ForkServer(modules, variables)
        except OSError:
            return None
    return None if server.refuses() else server


def _servers_of(owner: _Owner) -> list[tuple[_Owner, tuple[str, ...]]]:
    return [key for key in _servers if key[0] == owner]


@atexit.register
def close_servers() -> None:
    """End the servers of this process."""
    for key in [key for key in _servers if key[0][0] == os.getpid()]:
        _servers.pop(key).close()


def close_servers_of_thread() -> None:
    """End the servers of this thread."""
    with _servers_lock:
        for key in _servers_of((os.getpid(), threading.get_ident())):
            _servers.pop(key).close()


def _conditions() -> Any:
    """Return what a fork takes over from the server, and a new interpreter from here."""
    fixed = {name: value for name, value in os.environ.items() if not name.startswith(_OF_ONE_RUN)}
    return sys.executable, fixed, os.sched_getaffinity(0), [resource.getrlimit(each) for each in _LIMITS]
