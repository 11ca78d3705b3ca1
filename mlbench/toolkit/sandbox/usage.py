"""Resources of a program and all its children, from the kernel."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_COUNTED = ("VmRSS:", "VmSwap:", "VmPTE:", "HugetlbPages:")
"""Resident memory, what of it is swapped out, the tables that map it (pages of zeros take up nothing else), and large
pages, which are in none of these."""

_PIPE_BYTES = 1 << 16
_SOCKET_SETTINGS = {"wmem_default": 212_992, "optmem_max": 131_072}
"""What can wait in a socket, and its options; the values where the kernel does not tell."""
_REMOVED = " (deleted)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources of processes, each counted once."""

    memory_bytes: int
    """Theirs, with what their pipes and sockets can hold."""
    removed_bytes: int
    """Size of files that are open but already removed from their folder."""


def usage_of(pids: Iterable[int]) -> Usage:
    """Return the resources of these processes."""
    buffers: set[str] = set()
    removed: dict[tuple[int, int], int] = {}
    memory_bytes = 0
    for tasks in map(_tasks, pids):
        memory_bytes += _process_bytes(tasks)
        for path, target in (each for task in tasks for each in _open_files(task)):
            if target.startswith(("pipe:", "socket:")) or not target:
                buffers.add(target or path)
            elif target.endswith(_REMOVED) and target.startswith("/") and not target.startswith("/memfd:"):
                with contextlib.suppress(OSError):  # it is closed again
                    now = os.stat(path)
                    removed[now.st_dev, now.st_ino] = now.st_blocks * 512
    pipes = sum(name.startswith("pipe:") for name in buffers)
    buffers_bytes = pipes * _PIPE_BYTES + (len(buffers) - pipes) * _socket_bytes()
    return Usage(memory_bytes=memory_bytes + buffers_bytes, removed_bytes=sum(removed.values()))


def _socket_bytes() -> int:
    """Return how much a socket can hold, which a program cannot change."""
    total_bytes = 0
    for name, otherwise in _SOCKET_SETTINGS.items():
        try:
            with open(f"/proc/sys/net/core/{name}") as file:
                total_bytes += int(file.read())
        except (OSError, ValueError):
            total_bytes += otherwise
    return total_bytes


def _tasks(pid: int) -> list[str]:
    """Return where the threads of a process are to be seen: the first may have ended, and then shows nothing."""
    with contextlib.suppress(OSError):  # it may have ended
        return [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    return []


def _process_bytes(tasks: Iterable[str]) -> int:
    for task in tasks:
        with contextlib.suppress(OSError), open(f"{task}/status", "rb") as file:  # it may have ended
            lines = [line.split() for line in file.read().decode(errors="replace").splitlines()]
            sizes = [int(words[1]) << 10 for words in lines if len(words) == 3 and words[0] in _COUNTED]
            if sizes:
                return sum(sizes)
    return 0


def _open_files(task: str) -> Iterator[tuple[str, str]]:
    """Yield where a thread's open files are to be seen, and what they are; empty where that may not be known."""
    with contextlib.suppress(OSError), os.scandir(f"{task}/fd") as entries:  # it may have ended
        for entry in entries:
            try:
                yield entry.path, os.readlink(entry.path)
            except PermissionError:
                yield entry.path, ""
            except OSError:  # it is closed again
                continue
