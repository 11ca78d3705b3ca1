"""The sandbox as its user sees it: folders, and programs that run in them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Self

from mlbench.errors import UnavailableError
from mlbench.toolkit.sandbox import namespaces
from mlbench.toolkit.sandbox.job import MESSAGE_BYTES, Action
from mlbench.toolkit.sandbox.outcome import Outcome, Report, SandboxLimits, Wall
from mlbench.toolkit.sandbox.probe import weakness
from mlbench.toolkit.sandbox.readable import installation, readable_paths, search_path
from mlbench.toolkit.sandbox.removal import remove_folder
from mlbench.toolkit.sandbox.tree import open_folder

logger = logging.getLogger(__name__)

_PACKAGES = [str(folder) for folder in Path(__file__).parents[:3]]
_KEEPER = """
import sys, types
for name, folder in zip(("mlbench", "mlbench.toolkit", "mlbench.toolkit.sandbox"), sys.argv[3:], strict=True):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder]
from mlbench.toolkit.sandbox.keeper import keep
keep(int(sys.argv[1]), sys.argv[2])
"""
"""The keeper does without what its packages import for others: with each program it is copied three times."""

_PATIENCE_S = 60.0
"""How long after a program's deadline the end of all its processes may still take."""
_END_PATIENCE_S = 1.0
_READ_ONLY = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Sandbox:
    """Runs untrusted programs: isolated, with limits, and with nothing left running afterwards.

    A program sees the system's programs and libraries, the interpreters it needs, and its own folder, which is the only
    place where it can write. It sees no home folder, no environment, no network, and no process but its own.

    A context manager; inside, `run` may be called from any number of threads, for thousands of programs.
    """

    def __init__(self, wall: Wall, *, readable: Sequence[Path] = ()) -> None:
        """Store the wall; use `available` to find a working one.

        Args:
            wall: what stands between programs and the machine.
            readable: more files and folders that programs may read and run.
        """
        self.wall = wall
        self._more = tuple(readable)
        self._readable = readable_paths(readable)
        self._open = contextlib.ExitStack()
        self._home = Path()
        self._lock = threading.Lock()
        self._keeper: _Keeper | None = None

    @classmethod
    def available(cls, *, insist: bool = False, setting: str = "") -> Sandbox:
        """Return a sandbox with the strongest wall that works on this machine: a program inside tests each.

        Args:
            insist: run programs even if none works.
            setting: how the user insists, for the hint: ``--set workload.run_unprotected=true``.

        Raises:
            UnavailableError: no wall works, and the user does not insist.
        """
        reasons = []
        for wall in (Wall.NAMESPACES, Wall.LANDLOCK):
            with cls(wall) as sandbox:
                if not (reason := weakness(sandbox)):
                    return cls(wall)
            reasons.append(f"{wall}: {reason}")
        if insist:
            return cls(Wall.NONE)
        raise UnavailableError(
            f"this machine has no isolation for code that a model wrote ({'; '.join(reasons)}).",
            hint="Allow user namespaces, or use a kernel with Landlock"
            + (f", or run it unprotected with {setting}." if setting else "."),
        )

    def showing(self, programs: Iterable[Path]) -> Sandbox:
        """Return a sandbox like this one, not opened, where these programs run too, wherever they are installed."""
        more = [path for program in programs for path in (program, installation(program))]
        return Sandbox(self.wall, readable=(*self._more, *more))

    def __enter__(self) -> Self:
        """Start the keeper, a small process that starts the programs."""
        with self._open as stack:
            self._home = Path(tempfile.mkdtemp(prefix="mlbench-sandbox-")).resolve()
            stack.callback(_discard, self._home)
            self._home.chmod(0o711)  # programs may run as another user
            (self._home / "root").mkdir()
            self._keeper = _Keeper(self._home)
            stack.callback(self._hang_up)  # at which it ends
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _hang_up(self) -> None:
        if self._keeper:
            self._keeper.close()
            self._keeper = None

    def _opened(self) -> _Keeper:
        """Return the keeper: a new one if the last one ended."""
        with self._lock:
            if self._keeper is None:
                raise ValueError("a Sandbox is a context manager: open it with `with`")
            if self._keeper.has_ended:
                self._keeper.close()
                self._keeper = _Keeper(self._home)
            return self._keeper

    def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str] | None = None,
        limits: SandboxLimits | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run one program in a fresh folder with these files; the rest is as in `Folder.run`."""
        with self.folder(files or {}) as folder:
            return folder.run(command, limits=limits, stdin=stdin, environment=environment)

    @contextlib.contextmanager
    def folder(self, files: Mapping[str, str]) -> Iterator[Folder]:
        """Make a folder for several programs, one after the other, and remove it at the end.

        Behind the wall of namespaces it is in memory, and visible only to its programs. What cannot be removed is
        logged.

        Args:
            files: texts to put into it, by name.

        Raises:
            UnavailableError: the sandbox cannot make folders, or there is no room for the files.
        """
        keeper = self._opened()
        with self.raising_unavailable():
            path = Path(tempfile.mkdtemp(dir=self._home))
        try:
            with self.raising_unavailable():
                folder = self._make_in_memory(keeper, path) if self.wall is Wall.NAMESPACES else open_folder(str(path))
                try:
                    _write_files(folder, files)
                finally:
                    os.close(folder)
            yield Folder(self, path)
        finally:
            _discard(path)  # with the place where it is mounted a folder in memory goes

    def _make_in_memory(self, keeper: _Keeper, path: Path) -> int:
        request = {"action": Action.MAKE_FOLDER, "folder": str(path)}
        message, descriptors = keeper.ask(request, (), _PATIENCE_S)
        if not descriptors:
            raise self._unavailable(_error_in(message))
        return descriptors[0]

    def start(
        self, folder: Path, request: Mapping[str, object], limits: SandboxLimits, streams: Sequence[int]
    ) -> Report:
        """Have the keeper run a program, and return its report; `Folder.run` is the way to call this.

        Raises:
            UnavailableError: the program could not be started, or did not end.
        """
        whole = {
            "action": Action.RUN,
            "wall": self.wall,
            "readable": self._readable,
            "mount_point": str(self._home / "root"),
            "folder": str(folder),
            "limits": asdict(limits),
            **request,
        }
        message, _ = self._opened().ask(whole, streams, limits.wall_s + _PATIENCE_S)
        try:
            report = Report.from_message(message)
        except ValueError:
            report = Report(error=_error_in(message))
        if report.error:
            raise self._unavailable(report.error)
        return report

    @contextlib.contextmanager
    def raising_unavailable(self) -> Iterator[None]:
        """Turn OSError into UnavailableError."""
        try:
            yield
        except OSError as error:
            raise self._unavailable(error.strerror or str(error)) from None

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(f"the sandbox ({self.wall}) cannot start a program: {reason}.")

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the variables that are always set."""
        home = namespaces.FOLDER if self.wall is Wall.NAMESPACES else str(folder)
        return {"PATH": search_path(self._readable), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}


class Folder:
    """A folder of a sandbox, where programs run one after the other; `Sandbox.folder` makes it."""

    def __init__(self, sandbox: Sandbox, path: Path) -> None:
        self._sandbox = sandbox
        self._path = path

    def run(
        self,
        command: Sequence[str],
        *,
        limits: SandboxLimits | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run a program in this folder, wait for its end, and leave none of its processes.

        Args:
            command: the program and its arguments; ``./name`` is in this folder.
            limits: what it may use; None for `SandboxLimits()`.
            stdin: what it can read from standard input.
            environment: variables besides PATH, HOME, TMPDIR and LANG; it sees no others.

        Raises:
            UnavailableError: the sandbox cannot start programs.
        """
        limits = limits or SandboxLimits()
        with self._sandbox.raising_unavailable(), contextlib.ExitStack() as stack:
            streams = [stack.enter_context(_memory_file(content)) for content in (stdin, b"", b"")]
            fcntl.fcntl(streams[0], fcntl.F_ADD_SEALS, _READ_ONLY)
            request = {
                "command": list(command),
                "environment": {**self._sandbox.environment(self._path), **(environment or {})},
            }
            report = self._sandbox.start(self._path, request, limits, [stream.fileno() for stream in streams])
            stdout, stderr = (_content(stream, limits.output_bytes) for stream in streams[1:])
        return Outcome(
            ending=report.ending,
            returncode=report.returncode,
            stdout=stdout,
            stderr=stderr,
            wall_ns=report.wall_ns,
        )


class _Keeper:
    """The process that starts the programs, and the connection to it."""

    def __init__(self, home: Path) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            arguments = [str(theirs.fileno()), str(home), *reversed(_PACKAGES)]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEEPER, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.has_ended = False
        """True once its end was noticed."""

    def ask(self, request: Mapping[str, object], streams: Sequence[int], patience_s: float) -> tuple[object, list[int]]:
        """Return the answer to a request, from JSON, and what was sent with it; from any thread.

        Raises:
            ValueError: the request is too long.
        """
        data = json.dumps(request).encode()
        if len(data) > MESSAGE_BYTES:
            raise ValueError(f"a command of {len(data)} bytes is too long")
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with control:
            try:
                with theirs:
                    socket.send_fds(self._line, [data], [theirs.fileno(), *streams])
                control.settimeout(patience_s)
                answer, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 1)
            except TimeoutError:
                return {"error": "its keeper does not answer"}, []
            except ConnectionError:
                answer, descriptors = b"", []
        if not answer:
            return {"error": self._end()}, descriptors
        return json.loads(answer), descriptors

    def _end(self) -> str:
        try:
            self._process.wait(_END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return "its supervisor has ended"
        self.has_ended = True
        return "its keeper has ended"

    def close(self) -> None:
        """Close the socket, and wait for its end."""
        self._line.close()
        self._process.wait()


def _write_files(folder: int, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        with open(descriptor, "wb") as file:
            file.write(text.encode())


def _error_in(message: object) -> str:
    return str(message.get("error")) if isinstance(message, dict) else "its keeper sent an invalid message"


def _discard(folder: Path) -> None:
    if reason := remove_folder(str(folder)):
        logger.warning("a program's folder is left: %s", reason)


def _memory_file(content: bytes) -> IO[bytes]:
    """Return a file without a name, unlike a pipe never full and never waited for."""
    descriptor = os.memfd_create("stream", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    file = os.fdopen(descriptor, "w+b", buffering=0)
    file.write(content)
    file.seek(0)
    return file


def _content(file: IO[bytes], most_bytes: int) -> bytes:
    file.seek(0)
    return file.read(most_bytes)
