"""Checks that an engine leaves the process unchanged that it shares with mlbench."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from mlbench.conformance.recording import RecordingReply, answer_all, make_samples
from mlbench.conformance.subject import Check, Subject, demand

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM)
_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_AS", "RLIMIT_CORE")
_LOOK_AGAIN_S = 0.02
_OWN_OF_PYTHON = ("resource_tracker", "forkserver")
_EXECUTORS = "concurrent.futures.thread"


def leaves_the_process_alone(subject: Subject) -> None:
    """An engine writes to no pipe that it did not open and closes none, and changes no folder, signal or limit."""
    with _decoy() as decoy:
        before = _Surroundings.now()
        _answer_everything(subject)
        after = _Surroundings.now()
        demand(
            decoy.is_open(),
            "a pipe that the backend did not open was closed.",
            "Close only what you opened: the run reports to its parent through a pipe.",
        )
        found = decoy.content()
    demand(
        not found,
        f"{found[:60]!r} was written to a pipe that the backend did not open.",
        "Write to files of your own and to standard error: the run reports to its parent through a pipe.",
    )
    for name, old, new in before.differences(after):
        demand(False, f"{name} was {old}, and is {new}.", "Leave it, or put it back in __exit__.")


def leaves_nothing_running(subject: Subject) -> None:
    """Once an engine's ``__exit__`` has returned, no process that it started runs, and no thread holds up the end."""
    threads = set(threading.enumerate())
    _answer_everything(subject)
    processes = set(_children())  # what a runtime starts once, and keeps
    _answer_everything(subject)
    _wait_until(lambda: not _holding_up(threads) and not set(_children()) - processes, subject.patience_s)
    demand(
        not (left := sorted(thread.name for thread in _holding_up(threads))),
        f"the threads {', '.join(left)} run on, and Python waits for them at its end.",
        "Join threads in __exit__, or start them as daemons.",
    )
    demand(
        not (names := [name for pid, name in _children().items() if pid not in processes]),
        f"the processes {', '.join(names)} run on.",
        "End and wait for them in __exit__.",
    )


@dataclass(frozen=True, slots=True)
class _Pipe:
    """A pipe that the backend does not know of."""

    reader: int
    writer: int
    inode: int

    def is_open(self) -> bool:
        """Return whether both ends are what they were."""
        try:
            return {os.fstat(end).st_ino for end in (self.reader, self.writer)} == {self.inode}
        except OSError:
            return False

    def content(self) -> bytes:
        """Return what was written to it."""
        try:
            return os.read(self.reader, 4096)
        except BlockingIOError:
            return b""


@contextmanager
def _decoy() -> Iterator[_Pipe]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    pipe = _Pipe(reader, writer, os.fstat(reader).st_ino)
    try:
        yield pipe
    finally:
        if pipe.is_open():
            os.close(reader)
            os.close(writer)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The shared state of a process."""

    facts: dict[str, object]

    @classmethod
    def now(cls) -> _Surroundings:
        """Return what it is now."""
        streams = {f"descriptor {number}": _identity(number) for number in (1, 2)}
        handlers = {f"the handler of {each.name}": signal.getsignal(each) for each in _SIGNALS}
        limits = {f"the limit {name}": resource.getrlimit(getattr(resource, name)) for name in _LIMITS}
        others = {
            "the working folder": _working_folder(),
            "the mask of new files' modes": _mask(),
            "the switch interval": sys.getswitchinterval(),
            "the limit of recursion": sys.getrecursionlimit(),
            "the timer of SIGALRM": "set" if any(signal.getitimer(signal.ITIMER_REAL)) else "not set",
            "sys.stdout": type(sys.stdout).__name__,
            "sys.stderr": type(sys.stderr).__name__,
        }
        return cls({**others, **streams, **handlers, **limits})

    def differences(self, later: _Surroundings) -> Iterator[tuple[str, object, object]]:
        """Yield what changed: its name, what it was, what it is."""
        for name, value in self.facts.items():
            if later.facts[name] != value:
                yield name, value, later.facts[name]


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "removed"


def _mask() -> str:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return oct(mask)


def _identity(descriptor: int) -> str:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return "closed"
    return f"file {found.st_dev}:{found.st_ino}"


def _answer_everything(subject: Subject) -> None:
    process, reply = os.getpid(), RecordingReply()
    with subject.any_engine("bucketed") as (engine, dataset):
        samples = make_samples(range(dataset.count), dataset)
        answer_all(subject, engine, samples, reply)
    if os.getpid() != process:
        threading.Event().wait()  # the backend has forked, and this is the copy: it waits to be found


def _wait_until(is_so: Callable[[], bool], patience_s: float) -> None:
    over_s = time.monotonic() + patience_s
    while not is_so() and time.monotonic() < over_s:
        time.sleep(_LOOK_AGAIN_S)


def _holding_up(known: set[threading.Thread]) -> list[threading.Thread]:
    """Return the threads that Python waits for at its end, but for workers without work: those it sends away."""
    frames = sys._current_frames()
    new = [thread for thread in threading.enumerate() if thread not in known and not thread.daemon]
    return [thread for thread in new if not _is_idle_worker(frames.get(thread.ident or 0))]


def _is_idle_worker(frame: FrameType | None) -> bool:
    """Return whether a thread of a `ThreadPoolExecutor` waits for its next task: `_worker` is its innermost frame."""
    return frame is not None and frame.f_code.co_name == "_worker" and frame.f_globals["__name__"] == _EXECUTORS


def _children() -> dict[int, str]:
    """Return the processes below this one that run, by id, without those that Python keeps for itself."""
    import psutil

    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            is_running = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:  # it ended this moment
            continue
        if is_running and not any(name in command for name in _OWN_OF_PYTHON):
            found[process.pid] = f"{process.pid} ({command[:60]})"
    return found


PROCESS_CHECKS: tuple[Check, ...] = (leaves_the_process_alone, leaves_nothing_running)
