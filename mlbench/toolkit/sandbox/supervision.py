"""Supervises one program: its time, memory, folder and output; and ends all its processes."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import stat
import time
from typing import NoReturn

from mlbench.execution.processes.supervisor import adopt_orphans, descendants, end_descendants
from mlbench.toolkit.sandbox import landlock, memory_folder, namespaces
from mlbench.toolkit.sandbox.calls import CALLS, require_known_machine
from mlbench.toolkit.sandbox.control_group import ControlGroup
from mlbench.toolkit.sandbox.job import (
    SandboxJob,
    exit_code,
    give_up_root,
    is_root,
    run_program,
    spare_user,
    tasks_of_user,
)
from mlbench.toolkit.sandbox.outcome import Ending, Report, Wall
from mlbench.toolkit.sandbox.tree import TooDeepError, open_folder, tree_bytes, walk
from mlbench.toolkit.sandbox.usage import usage_of

Streams = tuple[int, int, int]

_LOOK_MS = 50
_OWN_MEMORY_BYTES = 128 << 20
"""The sandbox's own processes, which are counted with the program's."""
_END_PATIENCE_S = 30.0
"""How long killed processes may take to end."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ELF = b"\x7fELF"


def supervise(job: SandboxJob, control: socket.socket, stdin: int, stdout: int, stderr: int) -> None:
    """Run a program to its end and report through ``control``; end it early when the other side of that is closed.

    Args:
        job: the program.
        control: gets one message, a `Report`.
        stdin: a file, as the other streams are.
        stdout: gets what the program writes.
        stderr: and this its complaints.
    """
    try:
        folder = open_folder(job.folder)
        with contextlib.closing(ControlGroup.create(job.limits)) as group:
            report = _Supervision(job, folder, (stdin, stdout, stderr), group).run(control)
    except OSError as error:
        report = Report(error=_reason(error))
    except Exception as error:  # any unforeseen error is reported
        report = Report(error=f"{type(error).__name__}: {error}"[:_PAGE_BYTES])
    with contextlib.suppress(OSError):  # the reader is gone
        control.send(report.to_message())


class _Supervision:
    """The life of one program."""

    def __init__(self, job: SandboxJob, folder: int, streams: Streams, group: ControlGroup) -> None:
        self._job = job
        self._folder = folder
        self._streams = streams
        self._group = group

    def run(self, control: socket.socket) -> Report:
        """Run the program to its end.

        Raises:
            OSError: the wall cannot be built, or the program does not end.
        """
        job = self._job
        if job.wall is not Wall.NONE:
            require_known_machine()
        adopt_orphans()
        # also without a wall: the kernel counts no processes of root's
        user = _hand_over(self._folder) if is_root() and CALLS else 0
        if job.wall is Wall.NAMESPACES:
            if not memory_folder.resize(job.folder, job.limits):
                return Report(ending=Ending.FOLDER, returncode=128 + signal.SIGKILL)
            namespaces.leave(user)
        refusal, tell = os.pipe()
        started_ns = time.monotonic_ns()
        child = os.fork()
        if child == 0:
            self._become_program(user, tell)
        os.close(tell)
        try:
            ending, status = self._watch(child, control)
            wall_ns = time.monotonic_ns() - started_ns
        finally:
            self._group.kill()
            all_ended = end_descendants(_END_PATIENCE_S)
        if not all_ended:
            raise OSError(errno.EBUSY, "processes of the program do not end though they were killed")
        if error := os.read(refusal, _PAGE_BYTES).decode(errors="replace"):
            raise OSError(0, error)
        if job.wall is Wall.LANDLOCK:
            _make_programs_executable(self._folder)
        if self._group.ran_out_of_memory():
            ending = Ending.MEMORY
        return Report(ending=ending, returncode=exit_code(status), wall_ns=wall_ns)

    def _become_program(self, user: int, refusal: int) -> NoReturn:
        """Go behind the wall and become the program; say through ``refusal`` why that is not possible."""
        job = self._job
        try:
            os.setsid()
            os.umask(0o022)
            for number, stream in enumerate(self._streams):
                os.dup2(stream, number)
            self._group.enter()
            _be_the_first_to_go()
            match job.wall:
                case Wall.NAMESPACES:
                    namespaces.enter(job, user)
                case Wall.LANDLOCK:
                    landlock.enter(job, user)
                case Wall.NONE:
                    give_up_root(user)
                    os.chdir(job.folder)
                    run_program(job, processes=job.limits.processes + (0 if user else tasks_of_user()))
        except OSError as error:
            os.write(refusal, _reason(error).encode())
        finally:  # whatever happens, this copy of the keeper ends here
            os._exit(127)

    def _watch(self, child: int, control: socket.socket) -> tuple[Ending, int]:
        """Wait for the end, or for the first limit that is passed; return why it is over, and the wait status."""
        deadline = time.monotonic() + self._job.limits.wall_s
        poll = select.poll()
        ended = os.pidfd_open(child)
        poll.register(ended, select.POLLIN)
        poll.register(control, 0)  # hang-up is always told
        while True:
            left_ms = (deadline - time.monotonic()) * 1000
            events = poll.poll(max(0, min(_LOOK_MS, left_ms)))
            if any(descriptor == ended for descriptor, _ in events):
                _, status = os.waitpid(child, 0)
                return self._ending(status), status
            passed = Ending.WALL_TIME if events or left_ms <= 0 else self._check_limits()
            if passed:
                os.kill(child, signal.SIGKILL)  # with process 1 its whole namespace ends
                return passed, signal.SIGKILL

    def _ending(self, status: int) -> Ending:
        if exit_code(status) == 128 + signal.SIGXCPU:
            return Ending.CPU_TIME
        if exit_code(status) == 128 + signal.SIGXFSZ:
            return Ending.FOLDER
        return self._check_size() or Ending.EXIT

    def _check_limits(self) -> Ending | None:
        usage = usage_of(descendants(os.getpid()))
        if usage.memory_bytes > self._job.limits.memory_bytes + _OWN_MEMORY_BYTES:
            return Ending.MEMORY
        return self._check_size(usage.removed_bytes)

    def _check_size(self, removed_bytes: int = 0) -> Ending | None:
        limits = self._job.limits
        if any(_passed_output(os.fstat(stream), limits.output_bytes) for stream in self._streams[1:]):
            return Ending.OUTPUT
        if self._job.wall is Wall.NAMESPACES:
            return Ending.FOLDER if memory_folder.is_full(self._folder, limits) else None
        folder_bytes = tree_bytes(self._folder, limits.folder_bytes) + removed_bytes
        return Ending.FOLDER if folder_bytes > limits.folder_bytes else None


def _passed_output(output: os.stat_result, most_bytes: int) -> bool:
    """Return whether a stream holds too much, be it beyond its end."""
    return output.st_size > most_bytes or output.st_blocks * 512 > most_bytes + _PAGE_BYTES


def _reason(error: OSError) -> str:
    return str(error.strerror or error)


def _be_the_first_to_go() -> None:
    """Have the kernel take this process, and what it starts, before all others where memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _hand_over(folder: int) -> int:
    """Make an unused user the owner of a folder with the files in it; return its id.

    In a folder where a program ran already it is that program's user, whose the folder and all in it still is.
    """
    owner = os.fstat(folder).st_uid
    if owner:
        return owner
    user = spare_user()
    for name in os.listdir(folder):
        os.chown(name, user, user, dir_fd=folder, follow_symlinks=False)
    os.fchown(folder, user, user)
    return user


def _make_programs_executable(folder: int) -> None:
    """Do what behind this wall a linker cannot: change the mode of the program that it made."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(TooDeepError), contextlib.closing(walk(folder)) as entries:
        for here, entry in entries:
            with contextlib.suppress(OSError):  # a link, or nothing that can be opened
                with open(os.open(entry.name, flags, dir_fd=here), "rb") as file:
                    is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                    if is_file and file.read(len(_ELF)) == _ELF:
                        os.fchmod(file.fileno(), 0o700)
