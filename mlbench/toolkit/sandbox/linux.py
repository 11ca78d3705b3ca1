"""System calls that Python's `os` lacks. Each raises `OSError`, which says which call it was."""

from __future__ import annotations

import ctypes
import os
import struct

from mlbench.execution.processes.supervisor import prctl
from mlbench.toolkit.sandbox.calls import CALLS, require_known_machine

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4

_PR_SET_KEEPCAPS, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 8, 22, 38, 47
_PR_CAP_AMBIENT_RAISE = 2
_SECCOMP_MODE_FILTER = 2

CAP_DAC_READ_SEARCH = 2


_libc = ctypes.CDLL(None, use_errno=True)


def _check_call(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    require_known_machine()
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _check_call(name, _libc.syscall(ctypes.c_long(CALLS[name]), *words))


def unshare(flags: int) -> None:
    """Leave namespaces for fresh ones."""
    _check_call("unshare", _libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, or with MS_BIND a file or folder."""
    texts = [text.encode() or None for text in (source, target, kind)]
    result = _libc.mount(*texts, ctypes.c_ulong(flags), data.encode() or None)
    _check_call(f"mount {target}", result)


def make_read_only(folder: str) -> None:
    """Make a mount and all below it read-only, without devices and without set-user-id programs."""
    attributes = struct.pack("=4Q", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
    _syscall("mount_setattr", _AT_FDCWD, folder.encode(), _AT_RECURSIVE, attributes, len(attributes))


def pivot_here() -> None:
    """Make the current folder, a mount, the root, and let go of the old one."""
    _syscall("pivot_root", b".", b".")
    _check_call("umount2", _libc.umount2(b".", ctypes.c_int(MNT_DETACH)))
    os.chdir("/")


def gain_no_privileges() -> None:
    """Make set-user-id programs and file capabilities powerless from here on."""
    prctl("prctl", _PR_SET_NO_NEW_PRIVS, 1)


def become(user: int, *, capabilities: int = 0) -> None:
    """Change user and group, leave all other groups, and keep these capabilities only, also over an exec.

    Args:
        user: id of the user and of the group.
        capabilities: a bit set.
    """
    os.setgroups([])
    os.setresgid(user, user, user)
    prctl("prctl", _PR_SET_KEEPCAPS, 1)
    os.setresuid(user, user, user)
    keep_capabilities(capabilities)


def keep_capabilities(capabilities: int = 0) -> None:
    """Keep these capabilities only, also over an exec when `gain_no_privileges` comes first.

    Args:
        capabilities: a bit set.
    """
    header = struct.pack("=Ii", 0x20080522, 0)  # version 3, this thread
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    _syscall("capset", header, struct.pack("=6I", low, low, low, high, high, high))
    for capability in range(64):
        if capabilities >> capability & 1:
            prctl("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def filter_calls(program: bytes) -> None:
    """Put this process and all it starts under a seccomp filter; `gain_no_privileges` comes first."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    buffer = ctypes.create_string_buffer(header, len(header))
    prctl("seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(buffer))


def landlock_version() -> int:
    """Return the version of Landlock's interface; 0 where the kernel has none or has it switched off."""
    try:
        return _syscall("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def landlock_ruleset(attributes: bytes) -> int:
    """Return a descriptor of a new ruleset."""
    return _syscall("landlock_create_ruleset", attributes, len(attributes), 0)


def landlock_allow(ruleset: int, rights: int, path: int) -> None:
    """Allow these rights below a path, which is an open descriptor."""
    _syscall("landlock_add_rule", ruleset, 1, struct.pack("=Qi", rights, path), 0)


def landlock_restrict(ruleset: int) -> None:
    """Put this process and all it starts under a ruleset; `gain_no_privileges` comes first."""
    _syscall("landlock_restrict_self", ruleset, 0)
