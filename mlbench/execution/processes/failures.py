"""Ends of a process without a result, and errors sent between processes."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mlbench import errors
from mlbench.errors import MlbenchError, UnavailableError
from mlbench.execution.processes.usage import is_out_of_memory, oom_kills_so_far

_LONGEST_TEXT = 20_000
"""Most characters of an error's message that are passed on; the log has all of it."""


class FailureKind(StrEnum):
    """Kinds of a child's end without an outcome."""

    CRASH = "crash"
    EXIT = "exit"
    EXCEPTION = "exception"
    HANG = "hang"
    OUT_OF_MEMORY = "out of memory"
    UNSUPPORTED = "unsupported"
    """Not an error: the backend reported that it cannot compile a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of a child without an outcome."""

    kind: FailureKind
    message: str
    stage: str
    """Its stage: ``warm-up``."""
    log_tail: str


class ProcessEndedError(Exception):
    """A process that another one depends on has failed."""

    def __init__(self, message: str, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """An error, as it crosses from one process to another."""

    message: str
    hint: str = ""
    class_name: str = ""
    """Class in `mlbench.errors` of an `MlbenchError`; empty for any other error."""
    kind: FailureKind = FailureKind.EXCEPTION


def error_to_wire(error: BaseException) -> ErrorReport:
    """Return the report of an error for another process; `error_from_wire` makes an error of it there."""
    match error:
        case ModuleNotFoundError(name=str()):
            return error_to_wire(
                UnavailableError(f"{error.name} is not installed.", hint="pip install 'mlbench-inference[cpu]'")
            )
        case MlbenchError():
            # a plugin's own class is reported as the mlbench class it derives from
            name = next(each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__)
            message, hint = getattr(error, "message", ""), getattr(error, "hint", "")  # as far as it was constructed
            return ErrorReport(message=_cut(message), hint=_cut(hint), class_name=name)
        case ProcessEndedError():
            return ErrorReport(message=_cut(error), kind=error.kind)
    text = _describe_fully(error)
    kind = FailureKind.OUT_OF_MEMORY if is_out_of_memory(error, text) else FailureKind.EXCEPTION
    return ErrorReport(message=text, kind=kind)


def error_from_wire(report: ErrorReport) -> MlbenchError | ProcessEndedError:
    """Return the error that another process reported: an `MlbenchError` of the class that it had there."""
    known = getattr(errors, report.class_name, None)
    if isinstance(known, type) and issubclass(known, MlbenchError):
        return known(report.message, hint=report.hint)
    return ProcessEndedError(f"{report.message} {report.hint}".rstrip(), report.kind)


def report_from_values(values: object) -> ErrorReport:
    """Return a report from JSON values, whatever they are."""
    fields: Mapping[str, Any] = values if isinstance(values, Mapping) else {"message": str(values)}
    kind = fields.get("kind")
    return ErrorReport(
        message=_cut(fields.get("message", "")),
        hint=_cut(fields.get("hint", "")),
        class_name=_cut(fields.get("class_name", "")),
        kind=FailureKind(kind) if kind in list(FailureKind) else FailureKind.EXCEPTION,
    )


def _describe_fully(error: BaseException) -> str:
    """Return the class and the message of an error; a plugin's ``__str__`` may raise."""
    return _cut(f"{type(error).__name__}: {_cut(error)}".removesuffix(": "))


def _cut(text: object) -> str:
    try:
        whole = str(text)
    except Exception as failure:  # a plugin's code
        whole = f"(its text cannot be read: {type(failure).__name__})"
    return whole if len(whole) <= _LONGEST_TEXT else whole[:_LONGEST_TEXT] + "..."


def describe_exit(status: int, oom_kills: int) -> tuple[FailureKind, str]:
    """Return how a process ended early, as a predicate that follows its name.

    Args:
        status: as `subprocess` has it.
        oom_kills: `oom_kills_so_far` of the time when it was started.
    """
    if status == -signal.SIGKILL and oom_kills_so_far() > oom_kills:
        return FailureKind.OUT_OF_MEMORY, "was ended by the kernel because memory ran out"
    if status < 0:
        return FailureKind.CRASH, f"was ended by {_signal_name(-status)}"
    return FailureKind.EXIT, f"left with status {status} before it was done"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return f"signal {number}"
