"""The processor's flags, and how much of all processors this process may use, as Linux says.

Sources: cgroups(7); Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max), scheduler/sched-bwc.rst (version 1).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")

_NAMES = ("flags", "Features")
"""How x86 and Arm call them."""


def flags_of(cpuinfo: str) -> frozenset[str]:
    """Return the flags of the first processor in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _NAMES:
            return frozenset(value.split())
    return frozenset()


def machine_flags() -> frozenset[str]:
    """Return the flags of this machine's processors; none where Linux does not list them."""
    return flags_of(CPU_INFO.read_text(encoding="utf-8", errors="replace")) if CPU_INFO.is_file() else frozenset()


def usable_threads(root: Path = Path("/")) -> int:
    """Return how many threads this process can keep busy: those that it may run on, and no more than its quota allows.

    A part of a processor counts as one, since the time of that part would be lost otherwise. ``root`` is where /proc
    and /sys are.
    """
    threads = len(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    return threads if quota is None else max(1, min(threads, math.ceil(quota)))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU quota of this process in processors, the least of its control groups'; None without one."""
    return min(filter(None, map(_quota_of, control_groups(root))), default=None)


def control_groups(root: Path = Path("/")) -> Iterator[Path]:
    """Yield the folders of this process's control groups and of those around them: the limits of each apply.

    A container may see its own group as the top, under the path that the group has outside.
    """
    mounted = root / "sys/fs/cgroup"
    listed = re.findall(r"^\d+:([^:\n]*):/(.*)$", text_of(root / "proc/self/cgroup"), re.MULTILINE)
    named = [(mounted / controller, group) for names, group in listed for controller in (names, *names.split(","))]
    for folder, group in dict.fromkeys([*named, (mounted, ""), (mounted / "cpu", ""), (mounted / "memory", "")]):
        yield from (folder / each for each in (Path(group), *Path(group).parents))


def text_of(file: Path) -> str:
    """Return a file's text, stripped; empty when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):  # of a path with a NUL
        return ""


def _quota_of(group: Path) -> float | None:
    quota, _, period = text_of(group / "cpu.max").partition(" ")
    if not quota:
        quota, period = text_of(group / "cpu.cfs_quota_us"), text_of(group / "cpu.cfs_period_us")
    is_limited = quota.isdecimal() and period.isdecimal() and int(period)  # else "max", or -1
    return int(quota) / int(period) if is_limited else None
