"""A separate process for each run: a crash, hang or out-of-memory kill ends only that run, and is reported."""

from __future__ import annotations

import contextlib
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Self, TypeVar

import psutil
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from mlbench.errors import GraphError, InvalidRunError, UsageError
from mlbench.execution.processes.channel import Channel, OutcomeMessage, parse_message
from mlbench.execution.processes.failures import (
    ErrorReport,
    Failure,
    FailureKind,
    ProcessEndedError,
    describe_exit,
    error_from_wire,
)
from mlbench.execution.processes.patience import Silence
from mlbench.execution.processes.supervised import SupervisedProcess
from mlbench.execution.processes.usage import oom_kills_so_far, resident_bytes
from mlbench.execution.processes.wire import Received, Receiver, Stray, new_key
from mlbench.system.documents import JsonObject, first_problem, open_regular, open_to_write
from mlbench.wire.progress import ProgressMessage

__all__ = [
    "Channel",
    "ChildFunction",
    "Failure",
    "FailureKind",
    "OnProgress",
    "ProcessEndedError",
    "ProcessLimits",
    "ProcessPlace",
    "call_isolated",
]

_Answer = TypeVar("_Answer")

OnProgress = Callable[[ProgressMessage], None]

_LOG_TAIL_CHARACTERS = 4000
_SHARE_OF_RUN = 0.95
_SHARE_OF_HELPER = 0.8
_ROOM_HINT = "Check the free space of the results' disk, and `ulimit -a`."
_PULSE_S = 0.5
_LEAVE_WITHIN_S = 20.0
_MOST_STRAY_BYTES = 1 << 20
_MOST_CHUNKS_AFTER_END = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlace:
    """Environment variables of a child, in addition to those it inherits."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, in addition to those of this process."""
    watch: Callable[[Sequence[int]], None] = lambda pids: None
    """Called about twice a second with the ids of its processes. What it raises ends them, and leaves the call."""


ANYWHERE = ProcessPlace()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Limits of a child."""

    stage_timeout_s: float
    """Longest time without progress; longer if it works on a busy machine (`is_hung`)."""
    memory_bytes: int
    """Memory that the child and its children hold; pages of mapped files do not count."""
    idle_timeouts_s: Mapping[str, float] = field(default_factory=dict)
    """By stage: a shorter limit without progress while it neither uses nor waits for a processor."""
    place: ProcessPlace = ANYWHERE

    @classmethod
    def for_run(
        cls,
        stage_timeout_s: float,
        *,
        memory_gib: float = 0.0,
        idle_timeouts_s: Mapping[str, float] | None = None,
        free_bytes: int | None = None,
        place: ProcessPlace = ANYWHERE,
    ) -> Self:
        """Return the limits of a run: the memory that its user allows it, or nearly all that is free (0).

        ``free_bytes``: what is free for it, where that is not all of the machine's (None).
        """
        free_bytes = psutil.virtual_memory().available if free_bytes is None else free_bytes
        memory_bytes = memory_gib * 2**30 or _SHARE_OF_RUN * free_bytes
        return cls(
            stage_timeout_s=stage_timeout_s,
            memory_bytes=int(memory_bytes),
            idle_timeouts_s=idle_timeouts_s or {},
            place=place,
        )

    @classmethod
    def for_helper(cls, stage_timeout_s: float, *, free_bytes: int | None = None) -> Self:
        """Return the limits of a process other than a run: it leaves some of the free memory (None)."""
        free_bytes = psutil.virtual_memory().available if free_bytes is None else free_bytes
        return cls(stage_timeout_s=stage_timeout_s, memory_bytes=int(_SHARE_OF_HELPER * free_bytes))


@dataclass(frozen=True, slots=True)
class ChildFunction(Generic[_Answer]):
    """A function of a request and a `Channel` that a child runs: its ``module:function``, and what it returns.

    Request and answer are dataclasses, pydantic's models or mappings, and travel as JSON. The child reads the request
    as the annotation of the function's first parameter says.
    """

    path: str
    answer: type[_Answer]
    modules: Sequence[str] = ()
    """Modules that take long to import, which may be imported before a process is forked."""


def call_isolated(
    function: ChildFunction[_Answer],
    request: object,
    log: Path,
    limits: ProcessLimits,
    on_progress: OnProgress = lambda progress: None,
) -> _Answer | Failure:
    """Run a function in a process of its own, and return its answer or how it failed.

    The child's output goes to ``log``, up to a bound, and so does data on its pipe that is not a message.
    ``on_progress`` is given each `Channel.progress`. When this returns, all processes that the child started have
    ended too. The process is a fresh interpreter; for a function with ``modules`` it is a fork of one that has only
    imported them, which later calls share (`fork_server`).

    Raises:
        MlbenchError: the child raised one; the same class, message and hint. A `GraphError` is a failure instead: it
            concerns this child's work alone.
        UsageError: the child cannot be started: the disk is full, or there are too many processes.
        InvalidRunError: what it handed back is no such answer.
    """
    key, oom_kills = new_key(), oom_kills_so_far()
    try:
        start = {"key": key, "request": to_jsonable_python(request)}
        process = SupervisedProcess(function.path, start, log, function.modules, limits.place.variables)
    except OSError as error:
        raise UsageError(f"the run's process cannot be started: {error.strerror}.", hint=_ROOM_HINT) from None
    with process:
        watch = _Watch(process, Receiver(key), limits, log, on_progress)
        watch.follow()
    if isinstance(watch.last, OutcomeMessage):
        return _read_answer(function.answer, watch.last.value)
    kind, message = _reason(watch, process.status, oom_kills)
    return Failure(kind=kind, message=message, stage=watch.stage, log_tail=tail_of(log))


def _read_answer(kind: type[_Answer], value: JsonObject) -> _Answer:
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        reason = first_problem(error, whole="the whole")
        raise InvalidRunError(f"the process returned an invalid {kind.__name__}: {reason}.") from None


def _reason(watch: _Watch, status: int | None, oom_kills: int) -> tuple[FailureKind, str]:
    """Return the reason for a missing outcome.

    Raises:
        MlbenchError: the child raised it.
    """
    match watch.last:
        case ErrorReport(class_name=GraphError.__name__, message=message, hint=hint):
            return FailureKind.UNSUPPORTED, f"{message} {hint}".rstrip()
        case ErrorReport() as report:
            reported = error_from_wire(report)
            if isinstance(reported, ProcessEndedError):
                return reported.kind, str(reported)
            raise reported
    if watch.ended:
        return watch.ended
    if status is None:
        return FailureKind.CRASH, "the run's supervisor process was ended"
    kind, how = describe_exit(status, oom_kills)
    return kind, f"the process {how}"


class _Watch:
    """Reads a child's messages, and ends it if it is silent for too long or uses too much memory."""

    def __init__(
        self, process: SupervisedProcess, receiver: Receiver, limits: ProcessLimits, log: Path, on_progress: OnProgress
    ) -> None:
        self._process = process
        self._receiver = receiver
        self._limits = limits
        self._log = log
        self._on_progress = on_progress
        self._stray_bytes = 0
        self._silence: Silence | None = None
        """Since the last sign of life; None until the next look."""
        self._next_look_s = 0.0
        self._leave_by_s = float("inf")
        self.stage = "start"
        self.last: OutcomeMessage | ErrorReport | None = None
        """The child's final message; None if there was none."""
        self.ended: tuple[FailureKind, str] | None = None
        """Set when it was this watch that ended the child."""

    def follow(self) -> None:
        """Wait until the child is gone, with all its descendants."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.control, selectors.EVENT_READ)
            pipe = selector.register(self._process.messages, selectors.EVENT_READ)
            while not self._process.has_ended:
                for key, _ in selector.select(_PULSE_S):
                    if key is not pipe:
                        self._process.note_end()
                    elif self._read() == b"":
                        selector.unregister(self._process.messages)  # it has closed its end, and may still run
                if time.monotonic() >= self._next_look_s:
                    self._look()
                    self._next_look_s = time.monotonic() + _PULSE_S
        for _ in range(_MOST_CHUNKS_AFTER_END):
            if not self._read():
                break

    def _read(self) -> bytes | None:
        """Read from the pipe: empty at its end, None if there is nothing now."""
        data = self._process.read()
        if data is not None:
            for each in self._receiver.feed(data):
                self._take(each)
        return data

    def _take(self, received: Received | Stray) -> None:
        message = received if isinstance(received, Stray) else parse_message(received)
        match message:
            case ProgressMessage() if self.last is None:
                self._silence, self.stage = None, message.stage
                self._on_progress(message)
            case OutcomeMessage() | ErrorReport() if self.last is None:
                self.last = message
                self._leave_by_s = time.monotonic() + _LEAVE_WITHIN_S  # it has sent its final message
            case Stray(content=content):
                self._note(content)

    def _note(self, content: bytes) -> None:
        """Copy data from the pipe that is not a message to the log, up to a limit."""
        room = _MOST_STRAY_BYTES - self._stray_bytes
        if room <= 0:
            return
        self._stray_bytes += len(content)
        if len(content) >= room:
            content = content[:room] + b"\n(more data that is not a message is left out)\n"
        with contextlib.suppress(OSError), open_to_write(self._log, appends=True) as log:  # the disk may be full
            log.write(content)

    def _look(self) -> None:
        """End the child if it outlives its final message, is silent for too long, or uses too much memory."""
        now_s = time.monotonic()
        self._process.log.cut()
        self._process.give_up()
        pids = [each.pid for each in self._process.tree()]
        self._limits.place.watch(pids)
        if self.ended or self.last:
            if now_s > self._leave_by_s:
                self._process.end()
            return
        self.ended = self._grown(sum(map(resident_bytes, pids[1:]))) or self._hung(pids)  # the first is the supervisor
        if self.ended:
            self._process.end()

    def _grown(self, used_bytes: int) -> tuple[FailureKind, str] | None:
        allowed_bytes = self._limits.memory_bytes
        if used_bytes <= allowed_bytes:
            return None
        grown = f"the run used {used_bytes / 2**30:.1f} GiB of {allowed_bytes / 2**30:.1f} allowed"
        return FailureKind.OUT_OF_MEMORY, grown

    def _hung(self, pids: Sequence[int]) -> tuple[FailureKind, str] | None:
        if self._silence is None:
            self._silence = Silence(pids)
            return None
        idle_timeout_s = self._limits.idle_timeouts_s.get(self.stage)
        if not self._silence.is_hang(self._limits.stage_timeout_s, pids, idle_timeout_s):
            return None
        silence = f"no sign of life for {self._silence.seconds:.0f} s during {self.stage}"
        return FailureKind.HANG, f"{silence}, with {self._silence.work}"


def tail_of(log: Path) -> str:
    """Return the end of a log, which may be large; empty where it is gone."""
    try:
        with open_regular(log) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4 * _LOG_TAIL_CHARACTERS))
            return file.read().decode(errors="replace")[-_LOG_TAIL_CHARACTERS:]
    except OSError:
        return ""
