"""A small process between a run and its parent, which ends everything that the run started.

    python -I -S supervisor.py <control socket> <message pipe> <program> <arguments>

Started as a file and without site packages, since it should cost nothing: it imports from the standard library only; or
forked, by a process that has imported what the run needs (`supervise`). It starts the program in a session of its own,
and is the kernel's *subreaper* for it: processes whose parents end, in whatever session, become the supervisor's
children and not those of process 1. So no descendant can escape, and only descendants of this run are ever signalled.

The end comes with the program's own end, or with the end of the control socket: the parent closed it, or died. Then all
descendants are stopped, so that none starts another, and killed. The program's wait status goes to the parent. The
program dies with its supervisor, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn

END_WITHIN_S = 10.0
"""How long ending all descendants may take; processes that the kernel has not released by then are left."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Ignored here: the parent gets these signals too, and closes the socket."""
_RESTORED = (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ)
"""As `subprocess` does: Python ignores the last two."""
_PULSE_S = 0.002
_NOT_STARTED = 127


def die_with_parent() -> None:
    """Have the kernel end this process when the thread that started it ends."""
    prctl("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents end."""
    prctl("prctl", _PR_SET_CHILD_SUBREAPER, 1)


def prctl(what: str, option: int, *values: int) -> None:
    """Change something of this process.

    Args:
        what: for the message.
        option: one of the kernel's ``PR_`` constants.
        values: up to four.

    Raises:
        OSError: the kernel refuses.
    """
    import ctypes  # loads a library, which most who import this file do not need

    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(ctypes.c_int(option), *words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def descendants(root: int, spared: Collection[int] = ()) -> set[int]:
    """Return the processes below one, but for some with all that is below them; none where there is no ``/proc``.

    One that is started or loses its parent meanwhile may be missed: look again until there is none.
    """
    children_of = _listed_children if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _scanned_children()
    found: set[int] = set()
    parents = [root]
    while parents:
        below = [child for child in children_of(parents.pop()) if child not in spared]
        found.update(below)
        parents += below
    return found


def _listed_children(parent: int) -> list[int]:
    """Return the children of a process; most kernels keep a list."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it may have ended
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def _scanned_children() -> Callable[[int], list[int]]:
    """Return a function that knows the children of each process, from a look at all processes of the machine."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
            stat = file.read()  # the name of the program, in brackets, may hold anything
            _, parent, *_ = stat[stat.rindex(b")") + 2 :].split(maxsplit=2)
            children.setdefault(int(parent), []).append(int(name))
    return lambda parent: children.get(parent, [])


def end_descendants(
    within_s: float,
    note_end: Callable[[int, int], None] = lambda pid, status: None,
    spared: Collection[int] = (),
) -> bool:
    """Kill all descendants of this process and wait until they are gone; call `adopt_orphans` first.

    Processes are stopped before they are killed: a stopped process starts no other, and still counts against a limit on
    processes, so that a program that multiplies runs out of room.

    Args:
        within_s: how long that may take.
        note_end: is given the id and the wait status of each child that has ended.
        spared: children that are left alone, with all that is below them.

    Returns:
        False when some did not end in time.
    """
    until_s = time.monotonic() + within_s
    own, stopped = os.getpid(), set[int]()
    while (running := descendants(own, spared) - stopped) and time.monotonic() < until_s:
        _signal(running, signal.SIGSTOP)
        stopped |= running
    while time.monotonic() < until_s:
        _signal(descendants(own, spared), signal.SIGKILL)
        if not collect_ended(note_end) or not descendants(own, spared):
            return True
        time.sleep(_PULSE_S)
    return False


def collect_ended(note_end: Callable[[int, int], None]) -> bool:
    """Reap ended children, including orphans, and return whether others are left."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            note_end(*ended)
    except ChildProcessError:
        return False
    return True


class _Supervisor:
    """The program, and how it ended."""

    def __init__(self, control: int) -> None:
        self._control = control
        self._wakeups, self._wake = os.pipe()
        for descriptor in (self._wakeups, self._wake):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        self._program = 0
        self._status: int | None = None

    def start(self) -> bool:
        """Fork the program's process, and return whether this is it."""
        supervisor = os.getpid()
        self._program = os.fork()
        if self._program:
            return False
        try:
            self._leave(supervisor)
        except OSError as error:
            os.write(2, f"the run's process cannot be started: {error.strerror}\n".encode())
            os._exit(_NOT_STARTED)
        return True

    def _leave(self, supervisor: int) -> None:
        """Start a new session: signals to this process group do not reach the supervisor."""
        os.setsid()
        die_with_parent()
        signal.set_wakeup_fd(-1)
        for descriptor in (self._wakeups, self._wake, self._control):
            os.close(descriptor)
        for number in (signal.SIGCHLD, *_RESTORED):
            signal.signal(number, signal.SIG_DFL)
        if os.getppid() != supervisor:  # it died before its end was noticed here
            os._exit(_NOT_STARTED)

    def wait(self) -> None:
        """Wait until the program has ended, or the parent asks for it."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wakeups, select.POLLIN)
        while self._status is None:
            ready = {descriptor for descriptor, _ in poll.poll()}
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeups, 512)
            collect_ended(self._note_end)
            if self._control in ready:
                return

    def end_all(self) -> None:
        """Kill all descendants, and wait until they are gone."""
        end_descendants(END_WITHIN_S, self._note_end)

    def report(self) -> None:
        """Report to the parent how the program ended; empty if it has not."""
        code = "" if self._status is None else os.waitstatus_to_exitcode(self._status)
        with contextlib.suppress(OSError):  # the reader is gone
            os.write(self._control, f"{code}\n".encode())

    def _note_end(self, pid: int, status: int) -> None:
        if pid == self._program:
            self._status = status


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or become another user
            os.kill(pid, number)


def supervise(control: int, messages: int) -> None:
    """Fork, and return in the new process; this one watches over it, and ends here.

    Args:
        control: descriptor of the socket to the parent.
        messages: descriptor of the program's pipe, which this process must not hold open.
    """
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(control, False)
    with contextlib.suppress(OSError):  # then escaped processes are found by the variable
        adopt_orphans()
    supervisor = _Supervisor(control)
    if supervisor.start():
        return
    try:
        os.close(messages)  # or the parent would never see the end of it
        supervisor.wait()
    finally:
        try:
            supervisor.end_all()
            supervisor.report()
        finally:  # whatever happens, this copy of the process ends here
            os._exit(0)


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the program, and leave none of its processes."""
    control, messages, *command = arguments
    supervise(int(control), int(messages))
    try:
        os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    os._exit(_NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv[1:])
