"""The sandbox as its user sees it: folders, and programs that run in them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self

from mlbench.errors import UnavailableError
from mlbench.toolkit.sandbox import namespaces
from mlbench.toolkit.sandbox.job import MESSAGE_BYTES
from mlbench.toolkit.sandbox.outcome import Ending, Limits, Outcome, Wall
from mlbench.toolkit.sandbox.probe import weakness
from mlbench.toolkit.sandbox.readable import installation, readable_paths, search_path
from mlbench.toolkit.sandbox.removal import remove_folder

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


class Sandbox:
    """Runs programs that nobody has looked at: behind a wall, with limits, and with nothing left running afterwards.

    A program sees the system's programs and libraries, the interpreters it needs, and its own folder, which is the only
    place where it can write. It sees no home folder, no environment, no network, and no process but its own.

    A context manager; inside, `run` may be called from any number of threads, for thousands of programs.
    """

    def __init__(self, wall: Wall, *, readable: Sequence[Path] = ()) -> None:
        """Store which wall; `available` finds the one that stands here.

        Args:
            wall: what stands between programs and the machine.
            readable: more files and folders that programs may read and run.
        """
        self.wall = wall
        self._more = tuple(readable)
        self._readable = readable_paths(readable)
        self._open = contextlib.ExitStack()
        self._home = Path()
        self._line: socket.socket | None = None

    @classmethod
    def available(cls, *, insist: bool = False, setting: str = "") -> Sandbox:
        """Return a sandbox behind the strongest wall that stands on this machine: each is tried by a program behind it.

        Args:
            insist: run programs even where none stands.
            setting: how the user insists, for the hint: ``--set workload.run_unprotected=true``.

        Raises:
            UnavailableError: no wall stands, and the user does not insist.
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
            f"nothing here can hold code that a model wrote ({'; '.join(reasons)}).",
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
            stack.callback(remove_folder, str(self._home))
            self._home.chmod(0o711)  # programs may run as another user
            (self._home / "root").mkdir()
            self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                arguments = [str(theirs.fileno()), str(self._home), *reversed(_PACKAGES)]
                keeper = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _KEEPER, *arguments],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            stack.callback(keeper.wait)
            stack.callback(self._hang_up)  # at which it ends
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _opened(self) -> socket.socket:
        if self._line is None:
            raise ValueError("a Sandbox is a context manager: open it with `with`")
        return self._line

    def _hang_up(self) -> None:
        if self._line:
            self._line.close()
            self._line = None

    def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run one program in a fresh folder with these files; the rest is as in `Folder.run`."""
        with self.folder(files or {}) as folder:
            return folder.run(command, limits=limits, stdin=stdin, environment=environment)

    @contextlib.contextmanager
    def folder(self, files: Mapping[str, str]) -> Iterator[Folder]:
        """Make a folder for several programs, one after the other, and remove it at the end.

        Args:
            files: texts to put into it, by name.
        """
        self._opened()
        path = Path(tempfile.mkdtemp(dir=self._home))
        try:
            for name, text in files.items():
                (path / name).write_bytes(text.encode())
            yield Folder(self, path)
        finally:
            remove_folder(str(path))

    def start(self, folder: Path, request: Mapping[str, Any], streams: Sequence[int]) -> Mapping[str, Any]:
        """Have the keeper run a program, and return its report; `Folder.run` is the way to call this.

        Raises:
            UnavailableError: the program could not be started.
        """
        message = {
            "wall": self.wall,
            "readable": self._readable,
            "mount_point": str(self._home / "root"),
            "folder": str(folder),
            **request,
        }
        data = json.dumps(message).encode()
        if len(data) > MESSAGE_BYTES:
            raise ValueError(f"a command of {len(data)} bytes is too long")
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with control:
                with theirs:
                    socket.send_fds(self._opened(), [data], [theirs.fileno(), *streams])
                control.settimeout(request["limits"]["wall_s"] + _PATIENCE_S)
                answer = control.recv(MESSAGE_BYTES)
        except TimeoutError:
            answer = b'{"error": "its keeper does not answer"}'
        except ConnectionError:
            answer = b""
        report: Mapping[str, Any] = json.loads(answer or '{"error": "its keeper has ended"}')
        if "error" in report:
            raise UnavailableError(f"the sandbox ({self.wall}) cannot start a program: {report['error']}.")
        return report

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
        limits: Limits | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run a program in this folder, wait for its end, and leave none of its processes.

        Args:
            command: the program and its arguments; ``./name`` is in this folder.
            limits: what it may use; None for `Limits()`.
            stdin: what it can read from standard input.
            environment: variables besides PATH, HOME, TMPDIR and LANG; it sees no others.

        Raises:
            UnavailableError: the sandbox cannot start programs.
        """
        limits = limits or Limits()
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(_memory_file(content)) for content in (stdin, b"", b"")]
            request = {
                "command": list(command),
                "environment": {**self._sandbox.environment(self._path), **(environment or {})},
                "limits": asdict(limits),
            }
            report = self._sandbox.start(self._path, request, [stream.fileno() for stream in streams])
            stdout, stderr = (_content(stream, limits.output_bytes) for stream in streams[1:])
        return Outcome(
            ending=Ending(report["ending"]),
            returncode=report["returncode"],
            stdout=stdout,
            stderr=stderr,
            wall_ns=report["wall_ns"],
        )


def _memory_file(content: bytes) -> IO[bytes]:
    """Return a file without a name, unlike a pipe never full and never waited for."""
    file = os.fdopen(os.memfd_create("stream"), "w+b", buffering=0)
    file.write(content)
    file.seek(0)
    return file


def _content(file: IO[bytes], most_bytes: int) -> bytes:
    file.seek(0)
    return file.read(most_bytes)
