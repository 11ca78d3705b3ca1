"""The wall of Landlock and seccomp, for machines and containers that allow no namespaces.

Landlock keeps the program from all files but those it is given. What Landlock does not cover is refused by seccomp:
sockets, signals to others, and changes to modes, owners and times. As root the program also becomes another user.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from typing import NoReturn

from mlbench.toolkit.sandbox import linux, seccomp
from mlbench.toolkit.sandbox.job import SandboxJob, give_up_root, run_program, tasks_of_user

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER

_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many file rights a version of the interface knows; later ones as many as the last."""

_NO_TCP = 0b11
_NO_SIGNALS_OR_ABSTRACT_SOCKETS = 0b11

_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
_READ_ONLY_DEVICES = ("/dev/zero",)
"""Where it can be written to, memory can be mapped of it that no limit counts."""


def enter(job: SandboxJob, user: int) -> NoReturn:
    """Run the program behind the wall.

    Args:
        job: the program.
        user: whom it becomes; 0 where this process is not root.

    Raises:
        OSError: the kernel refuses.
    """
    version = linux.landlock_version()
    if not version:
        raise OSError(0, "the kernel has no Landlock")
    processes = job.limits.processes + (0 if user else tasks_of_user())
    linux.gain_no_privileges()
    _restrict_files(job, version)
    give_up_root(user)
    os.chdir(job.folder)
    rules = seccomp.filter_for_shared_namespaces(os.getpid(), scoped_signals=version >= 6, truncates=version >= 3)
    run_program(job, processes=processes, seccomp=rules)


def _restrict_files(job: SandboxJob, version: int) -> None:
    rights = (1 << _RIGHTS[min(version, 5)]) - 1
    attributes = struct.pack("=3Q", rights, _NO_TCP, _NO_SIGNALS_OR_ABSTRACT_SOCKETS)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = linux.landlock_ruleset(attributes[:size])
    for path, allowed in _list_allowed(job, rights):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        linux.landlock_allow(ruleset, rights & (allowed if is_folder else allowed & _OF_FILES), descriptor)
        os.close(descriptor)
    linux.landlock_restrict(ruleset)
    os.close(ruleset)


def _list_allowed(job: SandboxJob, rights: int) -> Iterator[tuple[str, int]]:
    yield job.folder, rights & ~_DEVICE_CONTROL
    yield "/proc/self", _READ_FILE | _READ_FOLDER
    for path in job.readable:
        yield path, _READ
    for path in _DEVICES:
        yield path, _READ_FILE | _WRITE_FILE
    for path in _READ_ONLY_DEVICES:
        yield path, _READ_FILE
