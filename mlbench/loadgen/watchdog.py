"""Watches a test from the side: tells how far it is, and ends one that has stalled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from mlbench.loadgen.ledger import Ledger

_PULSE_S = 0.5
_GRACE_S = 10.0


class Signs(Protocol):
    """Who wants to know how a test goes."""

    def answered(self, count: int, /) -> None:
        """Hear twice a second how many samples were answered so far."""

    def stuck(self, faults: str, /) -> None:
        """Hear that the engine holds LoadGen's thread and does not return: only ending the process ends the test."""


class NoSigns:
    """For a test that nobody watches: whoever runs it limits its time."""

    def answered(self, count: int, /) -> None:
        """Take no notice."""

    def stuck(self, faults: str, /) -> None:
        """Take no notice."""


class Watchdog:
    """A thread that wakes twice a second while a test runs."""

    def __init__(self, ledger: Ledger, *, stall_timeout_s: float, abort: Callable[[str], None], signs: Signs) -> None:
        """Store what to watch.

        Args:
            ledger: where samples come and go.
            stall_timeout_s: how long samples may wait without any answer.
            abort: ends the test from the outside, given the reason.
            signs: told how the test goes.
        """
        self._ledger = ledger
        self._stall_timeout_s = stall_timeout_s
        self._abort = abort
        self._signs = signs
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mlbench-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        answered, changed_s = 0, time.monotonic()
        while not self._over.wait(_PULSE_S):
            before, answered = answered, self._ledger.answered()
            self._signs.answered(answered)
            if answered != before or answered == self._ledger.issued:
                changed_s = time.monotonic()
            elif (waited_s := time.monotonic() - changed_s) > self._stall_timeout_s:
                self._abort(f"no reply within {waited_s:.0f} s")
                if not self._over.wait(_GRACE_S):
                    self._signs.stuck("; ".join(self._ledger.faults()))
                    return
                changed_s = time.monotonic()
