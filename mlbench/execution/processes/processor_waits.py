"""Times that processes wait for a processor, on a busy machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_Thread = tuple[int, int]
"""A process and one of its threads, as the kernel numbers them."""


class _State(NamedTuple):
    """What the kernel has counted for a thread by now."""

    ran_ns: int
    waited_ns: int
    """Without the wait that goes on: the kernel counts that one when it is over."""
    is_runnable: bool


class ProcessorWaits:
    """The time for which threads of some processes could have run, and others had the processors.

    The kernel forgets a thread's time when the thread ends: ask often where they come and go. Where it counts no such
    times, they stay 0.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        """Begin now."""
        self._looked_ns, self._states = time.monotonic_ns(), dict(_states(pids))
        self._in_advance_ns: dict[_Thread, int] = {}
        self._total_ns = 0

    def total_ns(self, pids: Iterable[int]) -> int:
        """Return the time since the beginning, the sum of all threads.

        Args:
            pids: the processes as they are now.
        """
        now_ns, states = time.monotonic_ns(), dict(_states(pids))
        passed_ns, self._looked_ns = now_ns - self._looked_ns, now_ns
        in_advance_ns = {}
        for thread, state in states.items():
            before = self._states.get(thread, _State(0, 0, False))
            counted_ns = self._in_advance_ns.get(thread, 0)
            if state.is_runnable and before.is_runnable and state.ran_ns == before.ran_ns:
                self._total_ns += passed_ns
                in_advance_ns[thread] = counted_ns + passed_ns
            else:
                gained_ns = state.waited_ns - before.waited_ns - counted_ns
                self._total_ns += min(max(0, gained_ns), passed_ns)  # it may have begun to wait before this did
        self._states, self._in_advance_ns = states, in_advance_ns
        return self._total_ns


def thread_waited_ns() -> int:
    """Return how long this thread could have run so far, and others had the processors; 0 where nothing counts it."""
    try:
        return _state("/proc/thread-self").waited_ns
    except OSError:
        return 0


def _states(pids: Iterable[int]) -> Iterator[tuple[_Thread, _State]]:
    """Yield the state of each thread of some processes; one that ends meanwhile is left out.

    Sources: proc_pid_stat(5), field 3; Documentation/scheduler/sched-stats.rst of Linux, /proc/<pid>/schedstat.
    """
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    yield (pid, int(thread)), _state(f"/proc/{pid}/task/{thread}")


def _state(folder: str) -> _State:
    with open(f"{folder}/schedstat", "rb") as file:
        ran_ns, waited_ns, _ = map(int, file.read().split())
    with open(f"{folder}/stat", "rb") as file:
        stat = file.read()
    letter = stat.rindex(b")") + 2  # the name before it may hold blanks and brackets
    return _State(ran_ns, waited_ns, is_runnable=stat[letter : letter + 1] == b"R")
