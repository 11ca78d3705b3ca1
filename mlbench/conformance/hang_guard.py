"""Ends a process that hangs, and reports which call of the backend it is in."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

from mlbench.execution.processes.patience import Silence, own_tree

_PULSE_S = 0.5


class HangGuard:
    """A thread that watches the one that made it. It is blocked while native code holds the GIL."""

    def __init__(self, timeout_s: float, on_hang: Callable[[str], None]) -> None:
        """Store what to do.

        Args:
            timeout_s: how long there may be no sign of progress; longer on a machine that is busy (`is_hung`).
            on_hang: called once, with the watched thread's position.
        """
        self._timeout_s = timeout_s
        self._on_hang = on_hang
        self._watched = threading.get_ident()
        self._silence = Silence(own_tree())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mlbench-hang-guard", daemon=True)

    def __enter__(self) -> HangGuard:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def progress(self) -> None:
        """Note a sign of progress."""
        self._silence = Silence(own_tree())

    def _watch(self) -> None:
        while not self._over.wait(_PULSE_S):
            silence = self._silence
            if silence.is_hang(self._timeout_s, own_tree()):
                self._on_hang(f"no sign of life for {silence.seconds:.0f} s, {self._place()}")
                return

    def _place(self) -> str:
        frame = sys._current_frames().get(self._watched)
        return "in a thread that is gone" if frame is None else describe_place(frame)


def describe_place(frame: FrameType) -> str:
    """Return which call the core is waiting for, given the innermost frame of its thread."""
    called: FrameType | None = None
    while frame.f_back and not _is_core(frame):
        called, frame = frame, frame.f_back
    if called is None:
        return f"in {_format_place(frame.f_code, frame)}"
    return f"in {_format_place(called.f_code, called)}, called by {frame.f_code.co_qualname}"


def _is_core(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == "mlbench" or name.startswith("mlbench.")


def _format_place(code: CodeType, frame: FrameType) -> str:
    return f"{code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"
