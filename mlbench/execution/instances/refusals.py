"""Errors that answer a request, between a run and its workers."""

from __future__ import annotations

import traceback
from dataclasses import asdict

from mlbench.errors import MlbenchError
from mlbench.execution.instances.messages import Message, MessageSink
from mlbench.execution.processes.failures import (
    ProcessEndedError,
    error_from_wire,
    error_to_wire,
    report_from_values,
)


def send_refusal(line: MessageSink, error: BaseException) -> None:
    """Report an error to the other side, which decides what it means; the traceback stays in the log."""
    traceback.print_exception(error)
    line.send("refused", error=asdict(error_to_wire(error)))


def refusal_in(message: Message) -> MlbenchError | ProcessEndedError | None:
    """Return the error that a message reports; None where it is no refusal."""
    return error_from_wire(report_from_values(message.facts.get("error"))) if message.kind == "refused" else None
