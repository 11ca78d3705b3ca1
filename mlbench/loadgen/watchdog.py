"""Watches a test: reports its progress, and ends one that hangs.

A test is over when LoadGen has returned, whatever the sample counts are: a reply can be lost on its way to LoadGen, and
an engine can block LoadGen's thread after its last answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import describe_error
from mlbench.loadgen.completer import Completer
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.sut import Qsl, Sut
from mlbench.wire.load_progress import SampleCounts

logger = logging.getLogger(__name__)

_PULSE_S = 0.5
GRACE_S = 10.0
"""How long LoadGen may pause when nothing blocks it."""
_LOST_S = 2.0
"""How long LoadGen may go on to send queries when the engine is lost."""


def _ignore(news: object, /) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCallbacks:
    """Callbacks of a test; by default none: the caller limits its time."""

    answered: Callable[[SampleCounts], None] = _ignore
    """Called twice a second with what went through so far, except while the dataset loads samples."""
    stuck: Callable[[str], None] = _ignore
    """Called with the reason when LoadGen will not return: only ending the process ends the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The parts of a test that show its progress."""

    ledger: Ledger
    completer: Completer
    sut: Sut
    qsl: Qsl
    folder: Path
    """Where LoadGen writes its logs, long after the last answer if they are large."""

    def movement(self) -> tuple[int, ...]:
        """Return numbers of which at least one changes while a test makes progress."""
        return self.ledger.issued, self.ledger.answered(), self.qsl.calls, _size_bytes(self.folder)


def _size_bytes(folder: Path) -> int:
    try:
        return sum(file.stat().st_size for file in folder.iterdir())
    except OSError:  # a reader may find it half created
        return 0


class Watchdog:
    """A thread that wakes twice a second while a test runs."""

    def __init__(
        self, watched: Watched, *, stall_timeout_s: float, idle_s: float, callbacks: ProgressCallbacks
    ) -> None:
        """Store what to watch.

        Args:
            watched: the test.
            stall_timeout_s: how long samples may wait without any answer, and LoadGen may be idle when none waits.
            idle_s: additional time for which LoadGen may send nothing.
            callbacks: called with the progress of the test.
        """
        self._watched = watched
        self._stall_timeout_s = stall_timeout_s
        self._idle_s = idle_s
        self._callbacks = callbacks
        self._is_aborted = False
        self._answered = self._issued = 0
        self._movement: tuple[int, ...] = ()
        self._answered_s = self._moved_s = time.monotonic()
        self._first_issue_s: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="mlbench-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        reason, looked_s = "", time.monotonic()
        while not reason and not self._over.wait(_PULSE_S):
            now_s = time.monotonic()
            self._forgive(now_s - looked_s - 2 * _PULSE_S, now_s)
            looked_s = now_s
            try:
                reason = self._look(now_s)
            except Exception as error:  # a test without a watchdog may never end
                logger.exception("the watchdog failed")
                reason = f"the test cannot be watched: {describe_error(error)}"
        if reason:
            self._callbacks.stuck(reason)

    def _forgive(self, late_s: float, now_s: float) -> None:
        """Leave out a time in which this thread did not run: then the engine may not have run either."""
        if late_s > 0:
            self._answered_s = min(self._answered_s + late_s, now_s)
            self._moved_s = min(self._moved_s + late_s, now_s)

    def _look(self, now_s: float) -> str:
        """Return the reason why the test hangs; empty if it does not."""
        ledger = self._watched.ledger
        movement, answered = self._watched.movement(), ledger.answered()
        if failure := self._watched.completer.failure:
            return f"replies do not reach LoadGen: {failure}"
        if self._watched.qsl.is_busy:
            self._answered_s = self._moved_s = now_s
            return ""
        self._callbacks.answered(self._count(now_s, answered))
        is_idle = answered >= ledger.issued
        if is_idle or answered != self._answered:
            self._answered_s = now_s
        if movement != self._movement:
            self._moved_s = now_s
        self._answered, self._movement = answered, movement
        if (sut := self._watched.sut).lost and now_s - sut.lost_s > _LOST_S and ledger.issued != self._issued:
            return f"{sut.lost}; LoadGen still sends queries {_LOST_S:g} s later"
        self._issued = ledger.issued
        if is_idle or self._is_aborted:
            return self._why_not_over(now_s - self._moved_s)
        if (waited_s := now_s - self._answered_s) > self._stall_timeout_s:
            self._is_aborted, self._moved_s = True, now_s
            self._watched.sut.abort(f"no reply within {waited_s:.0f} s")
        return ""

    def _count(self, now_s: float, answered: int) -> SampleCounts:
        issued = self._watched.ledger.issued
        if issued and self._first_issue_s is None:
            self._first_issue_s = now_s
        elapsed_s = 0.0 if self._first_issue_s is None else now_s - self._first_issue_s
        return SampleCounts(elapsed_s=elapsed_s, issued=issued, answered=min(answered, issued))

    def _why_not_over(self, still_s: float) -> str:
        """Return why LoadGen, idle for this long, will not continue; empty if it may."""
        limit_s = GRACE_S + (0.0 if self._is_aborted else self._stall_timeout_s)
        if still_s <= limit_s:
            return ""
        faults = "; ".join(self._watched.ledger.faults())
        if call := self._watched.sut.engine_call():
            return f"the engine does not return from {call}: {faults or 'every sample was answered'}"
        if still_s <= limit_s + self._idle_s:
            return ""
        issued = self._watched.ledger.issued
        return f"LoadGen did not return within {still_s:.0f} s of the last of {issued} answers: {faults or 'no fault'}"
