"""A process that has imported what runs need, and forks for each: the parent's side.

Importing a framework takes longer than many a smoke run. The runs of one command share that, and nothing else: each is
a fork of a process that has only imported, before any of it computes. A server with one module more is a fork, too, of
the server without it: what several lists of modules begin with is imported once. See docs/decisions/0031.
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
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Self

from mlbench.system.guards import undo_on_error

HEADER = struct.Struct("!cI")
"""Begins a message to the server: its kind, and how many bytes follow or which process it is about."""
START, SERVE, RELEASE = b"S", b"F", b"R"
"""A run, a server with more modules, and the end of either."""
FORKED = struct.Struct("!II")
"""The answer: the forked process, or 0 and the number of the error, or two zeros from a server that refuses."""
DESCRIPTORS = 4
"""Passed with a start: standard input, the log, the control socket and the message pipe. With a server its socket."""

FIRST_MODULE = "mlbench.measurement.measure"
"""What all runs import, before any other module."""

_IMPORT_WITHIN_S = 600.0
_LEAVES_WITHIN_S = 1.0
_MOST_SERVERS = 24
"""A run and its reference, which share some, each have a chain of up to eight; fewer servers would be forgotten before
the next run of the same workload."""
_OF_ONE_RUN = ("MLBENCH_", "PYTEST_", "HF_TOKEN", "COLUMNS", "LINES", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that a run reads when it needs them; others may matter to what was imported. torch sets the last itself."""
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Work of a forked process, done by `mlbench.execution.processes.child`."""

    function: str
    """``module:function``."""
    environment: Mapping[str, str]
    folder: str
    """The current folder."""


class NoForkError(OSError):
    """A fork would not be as a new interpreter: an import started a thread or opened a device."""

    def __init__(self) -> None:
        super().__init__("importing them starts a thread or opens a device")


@contextlib.contextmanager
def _new_line() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield our end of a line to a new server, which stays open if there is one then, and the server's end."""
    ours, theirs = socket.socketpair()
    with theirs:
        with undo_on_error(ours.close):
            yield ours, theirs


class ForkServer:
    """Starts supervised processes as forks of one that has imported some modules."""

    def __init__(self, line: socket.socket, process: subprocess.Popen[bytes] | ForkedProcess) -> None:
        """Take the server's process, and the socket to it."""
        self._line, self._process = line, process
        self._line.settimeout(_IMPORT_WITHIN_S)
        self._lock = threading.Lock()
        self._refuses = False

    @classmethod
    def in_interpreter(cls, module: str, variables: Mapping[str, str]) -> Self:
        """Start a server that imports a module, with these variables besides those of this process.

        Raises:
            OSError: it cannot be started.
        """
        with _new_line() as (line, theirs):
            number = theirs.fileno()
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mlbench.execution.processes.fork_server_main", str(number), module],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number],
                env={**os.environ, **variables},
                start_new_session=True,
            )
            return cls(line, process)

    def with_module(self, module: str) -> ForkServer:
        """Fork a server that imports another module.

        Raises:
            NoForkError: a fork of this one would not be as a new interpreter.
            OSError: there is none: the server was ended, or the machine is out of memory or processes.
        """
        with _new_line() as (line, theirs):
            return ForkServer(line, self._fork(SERVE, {"module": module}, [theirs.fileno()]))

    def is_gone(self) -> bool:
        """Return whether it was killed."""
        return self._process.poll() is not None and not self._refuses

    def refuses(self) -> bool:
        """Return whether it has refused to fork, after what its modules did when they were imported."""
        return self._refuses

    def start(self, request: ForkRequest, descriptors: Sequence[int]) -> ForkedProcess:
        """Fork a supervisor, which forks the process itself, and return the supervisor.

        Raises:
            NoForkError: a fork of this one would not be as a new interpreter.
            OSError: there is none: the server was ended, or the machine is out of memory or processes.
        """
        return self._fork(START, asdict(request), descriptors)

    def _fork(self, kind: bytes, what: Mapping[str, Any], descriptors: Sequence[int]) -> ForkedProcess:
        body = json.dumps(what).encode()
        with self._lock:
            with undo_on_error(self.close):  # an answer that still comes would be taken for that to the next request
                try:
                    socket.send_fds(self._line, [HEADER.pack(kind, len(body))], list(descriptors))
                    self._line.sendall(body)
                    answer = self._line.recv(FORKED.size, socket.MSG_WAITALL)
                except (BrokenPipeError, ConnectionResetError):
                    answer = b""
        if len(answer) < FORKED.size:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it is about to leave
                self._process.wait(_LEAVES_WITHIN_S)
            raise OSError("the server of forks ended")
        pid, number = FORKED.unpack(answer)
        if not pid and not number:
            self._refuses = True
            raise NoForkError
        if not pid:
            raise OSError(number, os.strerror(number))
        return ForkedProcess(self, pid)

    def release(self, pid: int) -> None:
        """Let the server reap a process that it forked and that has ended, and end what that left."""
        with self._lock, contextlib.suppress(OSError):
            self._line.sendall(HEADER.pack(RELEASE, pid))

    def close(self) -> None:
        """End the server, once what it forked has ended: else a server that it is a fork of may end that."""
        self._line.close()
        try:
            self._process.wait(_LEAVES_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkedProcess:
    """A process that a server forked, with what `subprocess.Popen` has of one that this process started."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)  # it is not reaped, and its number not given away, before its release
        self._is_released = False

    def poll(self) -> int | None:
        """Return 0 if it has ended, and None if it has not."""
        return 0 if self._is_released or select.select([self._descriptor], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and let it go; return 0.

        Raises:
            subprocess.TimeoutExpired: it has not ended after ``timeout`` seconds.
        """
        if self._is_released:
            return 0
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        os.close(self._descriptor)
        self._is_released = True
        self._server.release(self.pid)
        return 0

    def kill(self) -> None:
        """Kill it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


_Owner = tuple[int, int]
"""A process, since one that was itself forked has servers of its own, and a thread: each has its cores."""
_Conditions = tuple[Hashable, ...]
_Key = tuple[_Owner, _Conditions, tuple[str, ...]]

_servers: dict[_Key, ForkServer] = {}
"""By owner, conditions and modules; the latest used are the last, those with more modules before those that they are
forks of."""
_servers_lock = threading.Lock()
"""Held while the dictionary is looked at or changed, not while a server imports: other threads need others."""


def fork_server(modules: Sequence[str], variables: Mapping[str, str] = _NO_VARIABLES) -> ForkServer | None:
    """Return this thread's server with some modules imported; None where there is none, and without modules.

    A few are kept: the ones that have not been used for longest end when others are needed.

    Args:
        modules: by name, in the order in which they are imported.
        variables: which it has besides those of this process; always the same in one thread.

    Raises:
        NoForkError: one with fewer modules refuses to fork. Later there is none.
        OSError: it cannot be started.
    """
    if not modules:
        return None
    owner, conditions = (os.getpid(), threading.get_ident()), _conditions()
    chain = [(owner, conditions, tuple(modules[:count])) for count in range(len(modules), 0, -1)]
    _close_gone(chain)
    if any(server.refuses() for key in chain if (server := _servers.get(key))):
        return None
    server = _server(chain, variables)
    _note_use(chain)
    return server


def begin_imports() -> None:
    """Let this thread's server begin to import what all runs need, so that other work can be done meanwhile.

    Returns at once. The first run takes that server; without runs it ends with this process.
    """
    with contextlib.suppress(OSError):  # the run says so
        fork_server((FIRST_MODULE,))


def _server(chain: Sequence[_Key], variables: Mapping[str, str]) -> ForkServer:
    """Return the first server of a chain; where it is not there, as a fork of the second."""
    key, *fewer = chain
    if key not in _servers:
        last = key[-1][-1]
        server = _server(fewer, variables).with_module(last) if fewer else ForkServer.in_interpreter(last, variables)
        with _servers_lock:
            _servers[key] = server
    return _servers[key]


def _note_use(chain: Sequence[_Key]) -> None:
    """Make a chain the latest used, and end the ones that have not been used for longest if they are too many."""
    with _servers_lock:
        for key in chain:
            if server := _servers.pop(key, None):
                _servers[key] = server
        own = _servers_of(chain[0][0])
        ended = [_servers.pop(key) for key in own[: -max(_MOST_SERVERS, len(chain))]]
    for server in ended:
        server.close()


def _close_gone(chain: Sequence[_Key]) -> None:
    with _servers_lock:
        gone = [_servers.pop(key) for key in chain if key in _servers and _servers[key].is_gone()]
    for server in gone:
        server.close()


def _servers_of(owner: _Owner) -> list[_Key]:
    return [key for key in _servers if key[0] == owner]


@atexit.register
def close_servers() -> None:
    """End the servers of this process."""
    _close([key for key in _servers if key[0][0] == os.getpid()])


def close_servers_of_thread() -> None:
    """End the servers of this thread."""
    with _servers_lock:
        own = _servers_of((os.getpid(), threading.get_ident()))
    _close(own)


def _close(keys: Sequence[_Key]) -> None:
    """End servers, forks before what they are forks of, which reaps them."""
    for key in sorted(keys, key=lambda key: len(key[-1]), reverse=True):
        _servers.pop(key).close()


def _conditions() -> _Conditions:
    """Return what a fork takes over from the server, and a new interpreter from here."""
    fixed = {(name, value) for name, value in os.environ.items() if not name.startswith(_OF_ONE_RUN)}
    limits = tuple(resource.getrlimit(each) for each in _LIMITS)
    return sys.executable, frozenset(fixed), frozenset(os.sched_getaffinity(0)), limits
