"""Runs nvidia-smi within a time limit: its driver may hang, and the tool with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

NVIDIA_SMI = "nvidia-smi"
_TIMEOUT_S = 10
_DIES_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The tool's standard output."""

    lines: Sequence[str] = ()
    problem: str = ""
    """Reason why it is unreliable, in a line; empty if the tool succeeded, or is not installed."""


_silent: dict[str, ToolAnswer] = {}
"""By command, that it did not answer in time: nothing asks it again, and waits as long again."""


def ask_nvidia_smi(*arguments: str) -> ToolAnswer:
    """Ask the tool; nothing, and no problem, where it is not installed."""
    command = shutil.which(NVIDIA_SMI)
    if not command:
        return ToolAnswer()
    if command not in _silent:
        try:
            return _run([command, *arguments])
        except subprocess.TimeoutExpired:
            _silent[command] = ToolAnswer(problem=f"{NVIDIA_SMI} did not answer within {_TIMEOUT_S} s")
        except OSError as error:
            return ToolAnswer(problem=f"{NVIDIA_SMI} cannot be started: {error.strerror}")
    return _silent[command]


def _run(command: Sequence[str]) -> ToolAnswer:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, complaints = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a process that waits for a wedged driver cannot be killed
            process.communicate(timeout=_DIES_WITHIN_S)
        raise
    lines = [line for line in printed.splitlines() if line.strip()]
    if not process.returncode:
        return ToolAnswer(lines=lines)
    ended = f"exit status {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
    reason, *_ = *lines[-1:], *complaints.split("\n", 1)[:1], ended
    return ToolAnswer(lines=lines, problem=f"{NVIDIA_SMI}: {reason.strip() or ended}")
