"""Calls a plugin's code in this process. All its errors are reported as the plugin's, and never end a command.

It is interrupted after a time limit, if it runs Python code or waits; C code that keeps the interpreter is not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import TypeVar

from mlbench.errors import PluginError, describe_error, first_line
from mlbench.execution.processes.patience import Silence, own_tree

_Result = TypeVar("_Result")

ANSWERS_WITHIN_S = 60.0
"""A hook returns at once; `Backend.probe` may have to import a runtime from a slow disk."""

_LOOK_EVERY_S = 1.0
_SAY_AFTER_S = 5.0
"""Time after which a line names the plugin that the user waits for."""

_RECENT_SHARE = 0.01
"""What processes had done this share of the limit ago counts as what they had done at the call's beginning."""

left_threads: dict[threading.Thread, str] = {}
"""Threads that were left running by code of plugins, and would keep the process from ending, with whose they are."""

_owners: list[str] = []
"""Owners of the running code, by `note_threads`."""

_recent: dict[int, Silence] = {}
"""By process, the last look at what it and all below it had done: a look takes longer than most hooks."""


class _HungError(BaseException):
    """The code took too long; not caught by a plugin's ``except Exception``."""


def call_plugin(call: Callable[[], _Result], name: str = "", *, within_s: float | None = None) -> _Result:
    """Return the result of a plugin's code. Its output goes to standard error, since standard output is the command's.

    Args:
        call: the code.
        name: its name in the message: ``probe() raised OSError: ...``.
        within_s: its time limit, as `is_hung` counts; None for `ANSWERS_WITHIN_S`.

    Raises:
        PluginError: it raised anything at all, `SystemExit` included, or took too long; the message is the reason.
        KeyboardInterrupt: the user pressed Ctrl-C meanwhile.
    """
    within_s = ANSWERS_WITHIN_S if within_s is None else within_s
    with _watch_interrupts() as was_pressed, redirect_stdout(sys.stderr):
        try:
            with _limit_time(within_s):
                return call()
        except _HungError:
            raise PluginError(f"{name or 'it'} did not finish within {within_s:g} s") from None
        except BaseException as error:  # a plugin's code may raise anything
            if isinstance(error, KeyboardInterrupt) and was_pressed.is_set():
                raise
            reason = first_line(error) if isinstance(error, PluginError) else describe_error(error)
            raise PluginError(f"{name} raised {reason}" if name else reason) from None


@contextmanager
def note_threads(owner: str) -> Iterator[None]:
    """Note threads that are started meanwhile as an owner's, since Python would wait for them at exit."""
    before = set(threading.enumerate())
    _owners.append(owner)
    try:
        yield
    finally:
        _owners.pop()
        left = (each for each in threading.enumerate() if each not in before and not each.daemon)
        left_threads.update(dict.fromkeys(left, owner))


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


@contextmanager
def _limit_time(within_s: float) -> Iterator[None]:
    """Raise `_HungError` in code of the main thread that takes too long, again each second if it goes on."""
    handler = signal.getsignal(signal.SIGALRM)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    began_s, silence = time.monotonic(), _begin_silence(within_s)
    say_after_s = _SAY_AFTER_S if _owners else within_s

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal say_after_s
        if say_after_s < within_s:
            with suppress(OSError):
                print(f"waiting for plugin {_owners[-1]}", file=sys.stderr, flush=True)
            say_after_s = within_s
        if time.monotonic() - began_s > 0.99 * within_s and silence.is_hang(within_s, own_tree()):
            raise _HungError

    signal.signal(signal.SIGALRM, look)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, min(within_s, say_after_s), _LOOK_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left_s:  # a timer that someone else set
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - began_s), 1e-6), interval_s)


def _begin_silence(within_s: float) -> Silence:
    recent = _recent.get(os.getpid())
    if recent is None or recent.seconds > _RECENT_SHARE * within_s:
        _recent[os.getpid()] = recent = Silence(own_tree())
    return recent
