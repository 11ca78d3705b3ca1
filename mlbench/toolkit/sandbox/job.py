"""One program to run, as sent to the keeper; and its last steps before it runs."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from mlbench.execution.processes.supervisor import die_with_parent
from mlbench.toolkit.sandbox import linux
from mlbench.toolkit.sandbox.outcome import SandboxLimits, Wall

MESSAGE_BYTES = 1 << 17
"""The longest message to and from the keeper."""

_OPEN_FILES = 256
_RESERVED_BYTES = 64 << 30
"""Addresses that a process may reserve beyond its memory, as runtimes do; what maps them takes up memory too."""
_PENDING_SIGNALS = 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_SPARE_USER, _MOST_PROCESSES = 0x60000000, 1 << 22


class Action(StrEnum):
    """The kinds of requests to the keeper."""

    RUN = "run"
    MAKE_FOLDER = "make folder"
    """Make a folder in memory, over an existing one, and remove it with that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxJob:
    """One program to run."""

    wall: Wall
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    """Its working folder, and the only one where it may write."""
    readable: tuple[str, ...]
    """Files and folders that it may read and run."""
    mount_point: str
    """An empty folder."""
    limits: SandboxLimits


def is_root() -> bool:
    """Return whether this process may become any user: root, and not that of a container with few users of its own."""
    with open("/proc/self/uid_map") as file:
        return os.geteuid() == 0 and int(file.read().split()[2]) > _FIRST_SPARE_USER + _MOST_PROCESSES


def spare_user() -> int:
    """Return an unused user id, a different one for each calling process."""
    return _FIRST_SPARE_USER + os.getpid()


def give_up_root(user: int) -> None:
    """Become this user, of all root's rights keeping only that to read what other users may not, if it is there.

    The interpreter may lie in root's own folder. Root of a container with few users stays root in name.

    Args:
        user: 0 for the one that this process has.

    Raises:
        OSError: the kernel refuses.
    """
    with open("/proc/self/status") as file:
        permitted = next(int(line.split()[1], 16) for line in file if line.startswith("CapPrm"))
    capabilities = permitted & 1 << linux.CAP_DAC_READ_SEARCH
    if user:
        linux.become(user, capabilities=capabilities)
    else:
        linux.keep_capabilities(capabilities)


def run_program(job: SandboxJob, *, processes: int, seccomp: bytes = b"") -> NoReturn:
    """Set the limits and become the program.

    Args:
        job: the program.
        processes: the limit as the kernel counts it here.
        seccomp: a filter.

    Raises:
        OSError: a limit cannot be set.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what it starts would too
        signal.signal(number, signal.SIG_DFL)
    limits = job.limits
    cpu_s = math.ceil(limits.cpu_s)
    _lower(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    with contextlib.suppress(ValueError):  # it is 0 for good; where cores are piped to a program, only 1 prevents it
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    for kind, most in (
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_AS, limits.memory_bytes + _RESERVED_BYTES),
        (resource.RLIMIT_FSIZE, min(limits.file_bytes, max(limits.folder_bytes, limits.output_bytes) + _PAGE_BYTES)),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_STACK, limits.memory_bytes),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS),
        (resource.RLIMIT_NPROC, processes),
    ):
        _lower(kind, most, most)
    die_with_parent()
    linux.gain_no_privileges()
    if seccomp:
        linux.filter_calls(seccomp)
    try:
        os.execvpe(job.command[0], job.command, job.environment)
    except OSError as error:
        os.write(2, f"{job.command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _lower(kind: int, soft: int, hard: int) -> None:
    """Set a limit, or keep the one that is lower already."""
    soft_now, hard_now = resource.getrlimit(kind)
    if soft_now != resource.RLIM_INFINITY:
        soft = min(soft, soft_now)
    if hard_now != resource.RLIM_INFINITY:
        soft, hard = min(soft, hard_now), min(hard, hard_now)
    resource.setrlimit(kind, (soft, hard))


def tasks_of_user() -> int:
    """Return how many processes and threads this user has on the machine."""
    user, count = os.geteuid(), 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):  # it ended this moment
                if process.stat().st_uid == user:
                    count += len(os.listdir(process / "task"))
    return count


def exit_code(status: int) -> int:
    """Return a process's end as a shell tells it."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
