"""Calls of a plugin's code in this process. Whatever it raises is the plugin's error, never the end of a command."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import TypeVar

from mlbench.errors import PluginError, describe_error, first_line

_Result = TypeVar("_Result")


def call_plugin(call: Callable[[], _Result], name: str = "") -> _Result:
    """Return what a plugin's code returns. What it prints goes to standard error: standard output is the command's.

    Args:
        call: the code.
        name: what the message calls it: ``probe() raised OSError: ...``.

    Raises:
        PluginError: it raised anything at all, `SystemExit` included; the message is the reason.
        KeyboardInterrupt: the user pressed Ctrl-C meanwhile.
    """
    with _watch_interrupts() as was_pressed, redirect_stdout(sys.stderr):
        try:
            return call()
        except BaseException as error:  # a plugin's code may raise anything
            if isinstance(error, KeyboardInterrupt) and was_pressed.is_set():
                raise
            reason = first_line(error) if isinstance(error, PluginError) else describe_error(error)
            raise PluginError(f"{name} raised {reason}" if name else reason) from None


@contextmanager
def _watch_interrupts() -> Iterator[threading.Event]:
    """Give an event that is set when the user presses Ctrl-C, so that a plugin's own `KeyboardInterrupt` is told apart.

    Python raises it for a signal in the main thread alone, and only where a handler of Python's is installed.
    """
    was_pressed, handler = threading.Event(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield was_pressed
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        was_pressed.set()
        handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield was_pressed
    finally:
        signal.signal(signal.SIGINT, handler)
