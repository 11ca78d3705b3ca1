"""Counts what others use of the processors while a test runs."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mlbench.execution.processes.usage import process_tree, processor_time_s
from mlbench.records.machine.other_work import OtherWorkRecord

ELSEWHERE = "the samples were answered by processes that are not the run's"
"""Reason why it is not counted where nodes or a server answer: on this machine they would count as others."""
_NOT_COUNTED = "the kernel has no /proc/stat, or the test was shorter than a tick of its clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Seconds since the machine was started, of the processors that the run may use."""

    all_s: float
    busy_s: float
    stolen_s: float
    own_s: float


class OtherWork:
    """A context manager around another one, such as a power meter: what others used of the processors inside."""

    def __init__(self, inner: AbstractContextManager[object], *, stat: Path = Path("/proc/stat")) -> None:
        """Store what is entered and left together with it, and where the kernel's counts are."""
        self._inner, self._stat = inner, stat
        self._stack = ExitStack()
        self._begin: _Counts | None = None
        self._end: _Counts | None = None
        self.reason = ""
        """Reason for a missing record."""

    def __enter__(self) -> Self:
        self._begin, self._end = _count(self._stat), None
        self._stack.enter_context(self._inner)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._end = _count(self._stat)

    def record(self, *, is_elsewhere: bool = False) -> OtherWorkRecord | None:
        """Return what others used in the last section; None with `reason` set where that is not known.

        ``is_elsewhere``: the samples were answered by processes that are not below this one.
        """
        begin, end = self._begin, self._end
        if is_elsewhere or not begin or not end or end.all_s <= begin.all_s:
            self.reason = ELSEWHERE if is_elsewhere else _NOT_COUNTED
            return None
        whole_s, stolen_s = end.all_s - begin.all_s, end.stolen_s - begin.stolen_s
        others_s = (end.busy_s - begin.busy_s) - max(end.own_s - begin.own_s, 0.0)
        return OtherWorkRecord(processes=_share(others_s / whole_s), stolen=_share(stolen_s / whole_s))


def _share(share: float) -> float:
    """Return a share as far as it is known: the kernel counts in ticks, and samples what a process uses."""
    return round(min(max(share, 0.0), 1.0), 3)


def _count(stat: Path) -> _Counts | None:
    """Read what the processors did so far; None where the kernel does not say.

    Interrupts are no process's, and count as idle here: those of the run's own traffic would be another's.
    Source: proc_stat(5); ``user`` and ``nice`` include what guests of this machine use.
    """
    usable = os.sched_getaffinity(0)
    try:
        lines = [line.split() for line in stat.read_text().splitlines()]
        fields = [
            list(map(int, line[1:9]))
            for line in lines
            if line and line[0][:3] == "cpu" and line[0][3:].isdigit() and int(line[0][3:]) in usable
        ]
        totals = [sum(column) for column in zip(*fields, strict=True)]
        user, nice, system, _idle, _waiting, _interrupts, _soft, stolen = totals
    except (OSError, ValueError):
        return None
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return _Counts(
        all_s=sum(totals) / ticks_per_s,
        busy_s=(user + nice + system) / ticks_per_s,
        stolen_s=stolen / ticks_per_s,
        own_s=processor_time_s(process.pid for process in process_tree(os.getpid())),
    )
