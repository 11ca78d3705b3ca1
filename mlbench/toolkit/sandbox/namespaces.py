"""The wall of namespaces: the program's own file system, process table, network, users, and messages.

As root the namespaces are made with root's rights and the program becomes an otherwise unused user. Any other user
makes a user namespace first, in which the kernel grants those rights.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from mlbench.execution.processes.supervisor import die_with_parent
from mlbench.toolkit.sandbox import linux, seccomp
from mlbench.toolkit.sandbox.job import SandboxJob, exit_code, run_program

FOLDER = "/program"
"""What the program's folder is called inside."""

_APART = linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS | linux.CLONE_NEWCGROUP
_NOBODY = 65534
_DEVICES = ("null", "full", "random", "urandom")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "shm": FOLDER, "zero": "full"}
"""As zero reads full, of which no memory can be mapped that no limit counts."""


def leave(user: int) -> None:
    """Leave the machine's namespaces: what this process forks next is process 1 of its own.

    Args:
        user: whom the program becomes; 0 where this process is not root.

    Raises:
        OSError: the kernel refuses.
    """
    if user:
        linux.unshare(_APART)
    else:
        leave_users(_APART)


def leave_users(flags: int) -> None:
    """Leave the machine's users for a namespace in which this one has no rights, and these namespaces with them.

    Raises:
        OSError: the kernel refuses.
    """
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | flags)
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{_NOBODY} {user} 1"),
        ("gid_map", f"{_NOBODY} {group} 1"),
    ):
        Path("/proc/self", name).write_text(content)


def enter(job: SandboxJob, user: int) -> NoReturn:
    """Be process 1: run the program and leave with its exit code, at which the kernel ends all others in here.

    Raises:
        OSError: the kernel refuses.
    """
    die_with_parent()
    linux.unshare(linux.CLONE_NEWNS)
    _build_root(job)
    program = os.fork()
    if program == 0:
        if user:
            linux.become(user)
        own = 0 if user else 2  # as the same user, this init and its parent count too
        run_program(job, processes=job.limits.processes + own, seccomp=seccomp.filter_for_namespaces())
    while True:
        ended, status = os.wait()
        if ended == program:
            os._exit(exit_code(status))


def _build_root(job: SandboxJob) -> None:
    """Make a root of the readable paths, the program's folder and a few devices, and go there."""
    root = job.mount_point
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID, "mode=755,size=1m")
    for path in job.readable:
        _show(path, root + path)
    for name in ("/proc", "/dev", FOLDER):
        os.mkdir(root + name)
    if not os.path.exists(f"{root}/tmp"):  # unless something that is shown lies there
        os.symlink(FOLDER, f"{root}/tmp")
    for name in _DEVICES:
        Path(root, "dev", name).touch()
    for name, target in _LINKS.items():
        os.symlink(target, f"{root}/dev/{name}")
    linux.make_read_only(root)
    for name in _DEVICES:
        linux.mount(f"/dev/{name}", f"{root}/dev/{name}", flags=linux.MS_BIND)
    linux.mount(job.folder, root + FOLDER, flags=linux.MS_BIND)
    linux.mount("proc", f"{root}/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    os.chdir(root)
    linux.pivot_here()
    os.chdir(FOLDER)


def _show(path: str, place: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(os.readlink(path), place)
        return
    if os.path.isdir(path):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        Path(place).touch()
    linux.mount(path, place, flags=linux.MS_BIND | linux.MS_REC)
