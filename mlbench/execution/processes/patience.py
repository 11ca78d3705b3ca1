"""Decides when a silent process counts as hung, on a machine that may be busy."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from mlbench.execution.processes.processor_waits import ProcessorWaits
from mlbench.execution.processes.supervisor import descendants
from mlbench.execution.processes.usage import processor_time_s

WORKING_SHARE = 0.1
"""A silent process that neither used nor wanted a processor for this share of the time is waiting, not working."""

LONGEST_WAIT = 4.0
"""Maximum silence of a working process, as a multiple of its limit."""


def is_hung(
    silent_s: float, computed_s: float, waited_s: float, timeout_s: float, idle_timeout_s: float | None = None
) -> bool:
    """Return whether a silent process counts as hung.

    It is, when it was silent for its limit and

    - neither used nor wanted a processor for a tenth of that time: it waits for something that does not come;
    - or used as much processor time as the limit: it had all that it was allowed, and spins;
    - or was silent for four times its limit.

    In between it is at work on a machine that is busy with others, and gets more time.

    Args:
        silent_s: since its last sign of life, by the clock.
        computed_s: processor time since then, of the process and all below it.
        waited_s: how long their threads could have run since then, and no processor was free for them.
        timeout_s: its limit.
        idle_timeout_s: a shorter limit for a process that waits; None: the same.
    """
    is_waiting = computed_s + waited_s < WORKING_SHARE * silent_s
    if is_waiting:
        return silent_s > (timeout_s if idle_timeout_s is None else min(timeout_s, idle_timeout_s))
    return silent_s > timeout_s and (computed_s >= timeout_s or silent_s >= LONGEST_WAIT * timeout_s)


class Silence:
    """The time since a process gave a sign of life, and what it and all below it did meanwhile."""

    def __init__(self, pids: Iterable[int]) -> None:
        """Begin now.

        Args:
            pids: the process and all below it, as they are now.
        """
        self._began_s = time.monotonic()
        pids = list(pids)
        self._computed_before_s, self._computed_s = processor_time_s(pids), 0.0
        self._waits, self._waited_s = ProcessorWaits(pids), 0.0

    def is_hang(self, timeout_s: float, pids: Iterable[int], idle_timeout_s: float | None = None) -> bool:
        """Return whether the process is taken for hung by now (`is_hung`).

        Args:
            timeout_s: its limit.
            pids: the process and all below it, as they are now.
            idle_timeout_s: a shorter limit while it waits; None: the same.
        """
        pids = list(pids)
        self._computed_s = max(self._computed_s, processor_time_s(pids) - self._computed_before_s)
        self._waited_s = self._waits.total_ns(pids) / 1e9
        return is_hung(self.seconds, self._computed_s, self._waited_s, timeout_s, idle_timeout_s)

    @property
    def seconds(self) -> float:
        """How long it lasts by now."""
        return time.monotonic() - self._began_s

    @property
    def work(self) -> str:
        """What the processes did meanwhile, in words."""
        return f"{self._computed_s:.0f} s of processor time, and {self._waited_s:.0f} s of waiting for it"


def own_tree() -> list[int]:
    """Return this process and all below it."""
    return [os.getpid(), *descendants(os.getpid())]
