"""Memory and processor time of processes."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_HELD = re.compile(r"^Rss(?:Anon|Shmem):\s*(\d+) kB$", re.MULTILINE)
_SCHEDULED = 2
"""The kind of clock that the scheduler keeps; a process's own has its complement above three bits."""
_OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "memoryerror")


def process_tree(pid: int) -> list[psutil.Process]:
    """Return a process and all below it; none when it is gone."""
    import psutil

    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def processor_time_s(pids: Iterable[int]) -> float:
    """Return the processor time that processes used, with that of their children who have ended.

    Source: proc_pid_stat(5), fields 14 to 17, in clock ticks.
    """
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                stat = file.read()
        except OSError:  # it has ended; its time is now its parent's
            continue
        ticks += sum(map(int, _after_name(stat)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _after_name(stat: bytes) -> list[bytes]:
    """Return the fields of a process or thread from the third on; the name before may hold blanks and brackets."""
    return stat[stat.rindex(b")") + 2 :].split()


def read_thread_times_s(pid: int) -> Mapping[int, float]:
    """Return the processor time of each thread of a process that runs now, by its number; none when it is gone."""
    found = {}
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{name}/stat", "rb") as file:
                found[int(name)] = sum(map(int, _after_name(file.read())[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def read_processor_clock_ns(pid: int) -> int:
    """Return the processor time of all threads of a process so far, of those that have ended too; 0 when it is gone.

    Unlike `processor_time_s` it does not count in ticks. Source: clock_getcpuclockid(3), as the kernel numbers clocks.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
    except OSError:
        return 0


def resident_bytes(pid: int) -> int:
    """Return how much memory a process holds that the kernel cannot take back; 0 where the process is gone.

    Pages of mapped files are not in it: they are dropped when memory runs short and read again, so a table of 100 GB
    that is mapped from a file is no reason to end a run. Shared memory without a file is in it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return 0
    return 1024 * sum(int(kib) for kib in _HELD.findall(status))


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts in KiB


def oom_kills_so_far() -> int:
    """Return how many processes the kernel has killed because memory ran out; 0 where that cannot be read."""
    for file in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            counts = Path(file).read_text()
            return int(dict(line.split() for line in counts.splitlines())["oom_kill"])
        except (OSError, KeyError, ValueError):
            continue
    return 0


def is_out_of_memory(error: BaseException, text: str) -> bool:
    """Return whether an error says that memory ran out."""
    return isinstance(error, MemoryError) or any(words in text.lower() for words in _OUT_OF_MEMORY_WORDS)
