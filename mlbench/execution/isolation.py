"""A process of its own for each run: a crash, a hang or an out-of-memory kill takes down one run, and says so."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, NoReturn

from mlbench import errors
from mlbench.errors import MlbenchError, UnavailableError

_LOG_TAIL_CHARACTERS = 4000
_PULSE_S = 0.5
_STEP_PERIOD_S = 1.0
_END_GRACE_S = 20.0
_HELD = re.compile(r"^Rss(?:Anon|Shmem):\s*(\d+) kB$", re.MULTILINE)
_OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "memoryerror")


class FailureKind(StrEnum):
    """How a child came to its end without an outcome."""

    CRASH = "crash"
    EXIT = "exit"
    EXCEPTION = "exception"
    HANG = "hang"
    OUT_OF_MEMORY = "out of memory"
    UNSUPPORTED = "unsupported"
    """Nothing went wrong: the backend cannot compile a graph, and said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What happened to a child that left no outcome."""

    kind: FailureKind
    message: str
    stage: str
    """What it was doing: ``warm-up``."""
    log_tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may use."""

    stage_timeout_s: float
    """How long it may go without a sign of progress."""
    memory_bytes: int
    """Memory that the child and its children hold; pages of mapped files do not count."""


class ProcessEndedError(Exception):
    """A process that another one needed came to its end."""

    def __init__(self, message: str, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind = kind


class Channel:
    """The child's line to its parent: progress while it runs, and one outcome."""

    def __init__(self, descriptor: int) -> None:
        self._lock = threading.Lock()
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._stage = "start"
        self._next_step_s = 0.0

    def progress(self, stage: str, **facts: Any) -> None:
        """Tell what the child is doing; also a sign of life."""
        self._stage = stage
        self._send({"stage": stage, **facts})

    def alive(self) -> None:
        """Give a sign of life in the present stage."""
        self.progress(self._stage)

    def step(self, done: int, of: int) -> None:
        """Tell how far a batch is in the present stage; once a second, and nothing of the steps between."""
        now_s = time.monotonic()
        if now_s >= self._next_step_s:
            self._next_step_s = now_s + _STEP_PERIOD_S
            self._send({"stage": self._stage, "step": done, "steps": of})

    def outcome(self, value: Mapping[str, Any]) -> None:
        """Hand over the result, as JSON values."""
        self._send({"outcome": value})

    def error(self, error: BaseException) -> None:
        """Hand over the exception that ended the work."""
        self._send(told(error))

    def stuck(self, message: str) -> None:
        """Tell that some thread will never return, and end the process: nothing else would."""
        self._send({"error": message, "hint": "", "class": "", "kind": FailureKind.HANG})
        faulthandler.dump_traceback(all_threads=True)
        sys.stderr.flush()
        os._exit(1)

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(message) + "\n")
            self._file.flush()


def told(error: BaseException) -> dict[str, Any]:
    """Return an error as another process is told of it; `raise_told` raises it there."""
    match error:
        case ModuleNotFoundError():
            return told(UnavailableError(f"{error.name} is not installed.", hint="pip install 'mlbench[cpu]'"))
        case MlbenchError():
            # a class of a plugin's own is known here by the class of ours that it is made from
            name = next(each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__)
            return {"error": error.message, "hint": error.hint, "class": name, "kind": FailureKind.EXCEPTION}
        case ProcessEndedError():
            return {"error": str(error), "hint": "", "class": "", "kind": error.kind}
    kind = FailureKind.OUT_OF_MEMORY if _is_out_of_memory(error) else FailureKind.EXCEPTION
    return {"error": f"{type(error).__name__}: {error}", "hint": "", "class": "", "kind": kind}


def raise_told(message: Mapping[str, str]) -> NoReturn:
    """Raise what another process told.

    Raises:
        MlbenchError: of the class that it was there.
        ProcessEndedError: it was another error.
    """
    if message["class"]:
        raise getattr(errors, message["class"])(message["error"], hint=message["hint"])
    raise ProcessEndedError(message["error"], FailureKind(message["kind"]))


def call_isolated(
    function: str,
    payload: Mapping[str, Any],
    log: Path,
    limits: Limits,
    on_progress: Callable[[Mapping[str, Any]], None] = lambda progress: None,
) -> Mapping[str, Any] | Failure:
    """Run ``module:function(payload, channel)`` in a fresh interpreter, and return its outcome or what befell it.

    The child's output goes to ``log``. ``on_progress`` hears each `Channel.progress`.

    Raises:
        MlbenchError: the child raised one; the same class, message and hint. A `GraphError` is a failure instead: it
            concerns this child's work alone.
    """
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "mlbench.execution.child", function, str(write_end)]
    oom_kills = oom_kills_so_far()
    with log.open("ab") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[write_end], start_new_session=True
        )
    os.close(write_end)
    watch = _Watch(child, limits)
    try:
        _hand_over(child, payload)
        with os.fdopen(read_end, encoding="utf-8") as lines:
            last = watch.listen(lines, on_progress)
    finally:
        _end(child)
    if "outcome" in last:
        outcome: Mapping[str, Any] = last["outcome"]
        return outcome
    if last.get("class") == errors.GraphError.__name__:
        message = f"{last['error']} {last['hint']}".rstrip()
        return Failure(kind=FailureKind.UNSUPPORTED, message=message, stage=watch.stage, log_tail=_tail(log))
    if last.get("class"):
        raise_told(last)
    kind, message = watch.ended or _what_befell(child.returncode, last, oom_kills)
    return Failure(kind=kind, message=message, stage=watch.stage, log_tail=_tail(log))


class _Watch:
    """Follows a child's messages, and kills it when it is silent for too long or grows too big."""

    def __init__(self, child: subprocess.Popen[bytes], limits: Limits) -> None:
        self._child = child
        self._limits = limits
        self._last_sign_s = time.monotonic()
        self._over = threading.Event()
        self.stage = "start"
        self.ended: tuple[FailureKind, str] | None = None
        """Set when it was this watch that ended the child."""

    def listen(self, lines: IO[str], on_progress: Callable[[Mapping[str, Any]], None]) -> Mapping[str, Any]:
        """Return the child's last message that is not progress; empty when it left none."""
        guard = threading.Thread(target=self._guard, name="mlbench-guard", daemon=True)
        guard.start()
        last: Mapping[str, Any] = {}
        try:
            for line in lines:
                self._last_sign_s = time.monotonic()
                message = json.loads(line)
                if "stage" in message:
                    self.stage = message["stage"]
                    on_progress(message)
                else:
                    last = message
                    break
            self._wait_for_end()
        finally:
            self._over.set()
            guard.join()
        return last

    def _wait_for_end(self) -> None:
        """Let the child leave by itself, within reason: it has said all it had to say."""
        try:
            self._child.wait(_END_GRACE_S)
        except subprocess.TimeoutExpired:
            _kill(self._child)

    def _guard(self) -> None:
        while not self._over.wait(_PULSE_S):
            if self._child.poll() is not None:
                _kill(self._child)  # what it started may still hold its end of the pipe
                return
            silent_s = time.monotonic() - self._last_sign_s
            if silent_s > self._limits.stage_timeout_s:
                self.ended = (FailureKind.HANG, f"no sign of life for {silent_s:.0f} s during {self.stage}")
            elif (used := _memory_of(self._child.pid)) > self._limits.memory_bytes:
                grown, allowed = used / 2**30, self._limits.memory_bytes / 2**30
                self.ended = (FailureKind.OUT_OF_MEMORY, f"the run grew to {grown:.1f} GiB of {allowed:.1f} allowed")
            if self.ended:
                _kill(self._child)
                return


def _hand_over(child: subprocess.Popen[bytes], payload: Mapping[str, Any]) -> None:
    assert child.stdin
    try:
        with child.stdin:
            child.stdin.write(json.dumps(payload).encode())
    except BrokenPipeError:
        pass  # it is already gone; what befell it is told by its exit status


def _what_befell(status: int, last: Mapping[str, Any], oom_kills: int) -> tuple[FailureKind, str]:
    if "error" in last:
        return FailureKind(last["kind"]), last["error"]
    kind, how = ending(status, oom_kills)
    return kind, f"the process {how}"


def ending(status: int, oom_kills: int) -> tuple[FailureKind, str]:
    """Return how a process ended before it was done, in words that follow its name.

    Args:
        status: as `subprocess` has it.
        oom_kills: `oom_kills_so_far` of the time when it was started.
    """
    if status == -signal.SIGKILL and oom_kills_so_far() > oom_kills:
        return FailureKind.OUT_OF_MEMORY, "was ended by the kernel because memory ran out"
    if status < 0:
        return FailureKind.CRASH, f"was ended by {signal.Signals(-status).name}"
    return FailureKind.EXIT, f"left with status {status} before it was done"


def _end(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind: the child's whole session goes."""
    _kill(child)
    child.wait()


def _kill(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it is gone


def _memory_of(pid: int) -> int:
    """Return what a process and its children hold in memory; 0 when it ends this moment."""
    import psutil

    try:
        process = psutil.Process(pid)
        return sum(held_bytes(each.pid) for each in [process, *process.children(recursive=True)])
    except psutil.Error:
        return 0


def held_bytes(pid: int) -> int:
    """Return how much memory a process holds that the kernel cannot take back; 0 where the process is gone.

    Pages of mapped files are not in it: they are dropped when memory runs short and read again, so a table of 100 GB
    that is mapped from a file is no reason to end a run. Shared memory without a file is in it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return 1024 * sum(int(kib) for kib in _HELD.findall(status))


def peak_bytes() -> int:
    """Return the most memory that this process has held at a time."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts in KiB


def oom_kills_so_far() -> int:
    """Return how many processes the kernel has ended for want of memory; 0 where that cannot be read."""
    try:
        counts = Path("/sys/fs/cgroup/memory.events").read_text()
        return int(dict(line.split() for line in counts.splitlines())["oom_kill"])
    except (OSError, KeyError, ValueError):
        pass
    try:
        counts = Path("/proc/vmstat").read_text()
        return int(dict(line.split() for line in counts.splitlines())["oom_kill"])
    except (OSError, KeyError, ValueError):
        return 0


def _is_out_of_memory(error: BaseException) -> bool:
    text = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(words in text for words in _OUT_OF_MEMORY_WORDS)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]
