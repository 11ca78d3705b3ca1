"""One program watched from outside: its time, memory, folder and output; and the end of all that it started."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from typing import NoReturn

from mlbench.toolkit.sandbox import landlock, linux, namespaces
from mlbench.toolkit.sandbox.job import Job, exit_code, give_up_root, is_root, run_program, spare_user, tasks_of_user
from mlbench.toolkit.sandbox.outcome import Ending, Wall

Streams = tuple[int, int, int]

_LOOK_MS = 50
_OWN_MEMORY_BYTES = 128 << 20
"""The sandbox's own processes, which are counted with the program's."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def supervise(job: Job, control: socket.socket, stdin: int, stdout: int, stderr: int) -> None:
    """Run a program to its end and report through ``control``; end it early when the other side of that is closed.

    Args:
        job: the program.
        control: gets one message, JSON: ending, returncode, wall_ns; or error.
        stdin: a file, as the other streams are.
        stdout: gets what the program writes.
        stderr: and this its complaints.
    """
    try:
        report = _run(job, control, (stdin, stdout, stderr))
    except OSError as error:
        report = {"error": _reason(error)}
    with contextlib.suppress(OSError):  # nobody is interested any more
        control.send(json.dumps(report).encode())


def _run(job: Job, control: socket.socket, streams: Streams) -> dict[str, object]:
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        raise OSError(errno.ENOSYS, "the kernel does not list children")
    linux.adopt_orphans()
    user = 0
    if job.wall is not Wall.NONE:
        linux.require_x86_64()
    if is_root() and linux.is_x86_64():  # also without a wall: the kernel counts no processes of root's
        user = spare_user()
        _hand_over(job.folder, user)
    if job.wall is Wall.NAMESPACES:
        namespaces.leave(user)
    refusal, tell = os.pipe()
    started_ns = time.monotonic_ns()
    child = os.fork()
    if child == 0:
        _become_program(job, user, streams, tell)
    os.close(tell)
    try:
        ending, status = _watch(child, job, control, streams)
        wall_ns = time.monotonic_ns() - started_ns
    finally:
        _end_descendants()
    if error := os.read(refusal, 4096).decode():
        return {"error": error}
    if job.wall is Wall.LANDLOCK:
        _make_programs_executable(job.folder)
    return {"ending": ending, "returncode": exit_code(status), "wall_ns": wall_ns}


def _become_program(job: Job, user: int, streams: Streams, refusal: int) -> NoReturn:
    """Go behind the wall and become the program; say through ``refusal`` why that is not possible."""
    try:
        os.setsid()
        os.umask(0o022)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        match job.wall:
            case Wall.NAMESPACES:
                namespaces.enter(job, user)
            case Wall.LANDLOCK:
                landlock.enter(job, user)
            case Wall.NONE:
                if user:
                    give_up_root(user)
                os.chdir(job.folder)
                run_program(job, processes=job.limits.processes + (0 if user else tasks_of_user()))
    except OSError as error:
        os.write(refusal, _reason(error).encode())
    finally:  # whatever happens, this copy of the keeper ends here
        os._exit(127)


def _reason(error: OSError) -> str:
    return str(error.strerror or error)


def _watch(child: int, job: Job, control: socket.socket, streams: Streams) -> tuple[Ending, int]:
    """Wait for the end, or for the first limit that is passed; return why it is over, and the wait status."""
    deadline = time.monotonic() + job.limits.wall_s
    poll = select.poll()
    ended = os.pidfd_open(child)
    poll.register(ended, select.POLLIN)
    poll.register(control, 0)  # hang-up is always told
    while True:
        left_ms = (deadline - time.monotonic()) * 1000
        events = poll.poll(max(0, min(_LOOK_MS, left_ms)))
        if any(descriptor == ended for descriptor, _ in events):
            _, status = os.waitpid(child, 0)
            return _ending(job, streams, status), status
        passed = Ending.WALL_TIME if events or left_ms <= 0 else _passed_limit(job, streams)
        if passed:
            os.kill(child, signal.SIGKILL)  # with process 1 its whole namespace ends
            return passed, signal.SIGKILL


def _ending(job: Job, streams: Streams, status: int) -> Ending:
    if exit_code(status) == 128 + signal.SIGXCPU:
        return Ending.CPU_TIME
    if exit_code(status) == 128 + signal.SIGXFSZ:
        return Ending.FOLDER
    return _passed_size(job, streams) or Ending.EXIT


def _passed_limit(job: Job, streams: Streams) -> Ending | None:
    memory_bytes = sum(_resident_bytes(pid) for pid in _descendants())
    if memory_bytes > job.limits.memory_bytes + _OWN_MEMORY_BYTES:
        return Ending.MEMORY
    return _passed_size(job, streams)


def _passed_size(job: Job, streams: Streams) -> Ending | None:
    if any(os.fstat(stream).st_size > job.limits.output_bytes for stream in streams[1:]):
        return Ending.OUTPUT
    if sum(entry.st_blocks * 512 for entry in _entries(job.folder)) > job.limits.folder_bytes:
        return Ending.FOLDER
    return None


def _entries(folder: str) -> Iterator[os.stat_result]:
    for path, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):  # it is gone already
                yield os.lstat(os.path.join(path, name))


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/statm") as file:  # it may have ended
        return int(file.read().split()[1]) * _PAGE_BYTES
    return 0


def _descendants() -> list[int]:
    found, parents = [], [os.getpid()]
    while parents:
        parent = parents.pop()
        with contextlib.suppress(OSError):  # it may have ended
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    children = [int(child) for child in file.read().split()]
                found += children
                parents += children
    return found


def _end_descendants() -> None:
    """Kill all that is left, however it hid: orphans have become this process's own children.

    They are stopped before they are killed: a stopped process starts no other, and still counts against the limit, so
    that a program that multiplies runs out of room.
    """
    stopped: set[int] = set()
    while running := set(_descendants()) - stopped:
        for pid in running:
            _signal(pid, signal.SIGSTOP)
        stopped |= running
    while True:
        for pid in _descendants():
            _signal(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(pid, number)


def _hand_over(folder: str, user: int) -> None:
    """Make the program's user the owner of its folder, with all in it."""
    os.chown(folder, user, user)
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(os.path.join(path, name), user, user)


def _make_programs_executable(folder: str) -> None:
    """Do what behind this wall a linker cannot: change the mode of the program that it made."""
    for path, _, files in os.walk(folder):
        for name in files:
            place = os.path.join(path, name)
            with contextlib.suppress(OSError):  # a link, or nothing that can be opened
                with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        os.fchmod(file.fileno(), 0o700)
