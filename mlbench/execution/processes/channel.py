"""Messages of a run's process to its parent: progress while it runs, and finally an outcome or an error."""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlbench.execution.processes.failures import ErrorReport, FailureKind, error_to_wire, report_from_values
from mlbench.execution.processes.wire import Received, Sender, Stray
from mlbench.system.documents import JsonObject
from mlbench.wire.progress import ProgressMessage, Steps

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_STEP_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMessage:
    """The result of the child's work, as JSON values."""

    value: JsonObject


Message = ProgressMessage | OutcomeMessage | ErrorReport


def parse_message(received: Received) -> Message | Stray:
    """Return the message that arrived; a `Stray` for the log where its JSON is none."""
    try:
        values = json.loads(received.body)
    except (ValueError, RecursionError):
        return Stray(received.body + b"\n")
    match values:
        case {"kind": "progress", "stage": str(stage), "facts": dict(facts), **rest} if not rest:
            return ProgressMessage(stage=stage, facts=facts)
        case {"kind": "outcome", "value": dict(value), **rest} if not rest:
            return OutcomeMessage(value=value)
        case {"kind": "error", "error": dict(error), **rest} if not rest:
            return report_from_values(error)
    return Stray(repr(values).encode() if isinstance(values, dict) else received.body + b"\n")


class Channel:
    """The child's channel to its parent."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._stage = "start"
        self._next_step_s = 0.0

    def progress(self, stage: str, fact: DataclassInstance | None = None) -> None:
        """Report the child's stage, and perhaps a fact about it; also a sign of life."""
        self._stage = stage
        message = ProgressMessage.of(stage, fact)
        self._sender.send({"kind": "progress", "stage": message.stage, "facts": message.facts})

    def alive(self) -> None:
        """Give a sign of life in the present stage."""
        self.progress(self._stage)

    def step(self, done: int, of: int) -> None:
        """Report progress within a batch in the current stage, at most once a second."""
        now_s = time.monotonic()
        if now_s >= self._next_step_s:
            self._next_step_s = now_s + _STEP_PERIOD_S
            self.progress(self._stage, Steps(done=done, of=of))

    def outcome(self, value: JsonObject) -> None:
        """Send the result.

        Raises:
            TypeError, ValueError: it is not made of JSON values, or too long.
        """
        self._sender.send({"kind": "outcome", "value": value})

    def error(self, error: BaseException) -> None:
        """Send the exception that ended the work."""
        self._report_error(error_to_wire(error))

    def stuck(self, message: str) -> None:
        """Report that a thread hangs, and end the process: nothing else would."""
        try:
            self._report_error(ErrorReport(message=message, kind=FailureKind.HANG))
            faulthandler.dump_traceback(all_threads=True)
            sys.stderr.flush()
        finally:
            os._exit(1)

    def _report_error(self, report: ErrorReport) -> None:
        self._sender.send({"kind": "error", "error": dataclasses.asdict(report)})
