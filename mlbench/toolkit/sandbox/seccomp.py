"""The system calls that programs in the sandbox do without, as a seccomp filter for x86-64."""

from __future__ import annotations

import errno
import functools
import struct
from collections.abc import Iterable

CALLS = {
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "setpriority": 141,
    "sched_setaffinity": 203,
    "sched_setattr": 314,
    "ioprio_set": 251,
    "prlimit64": 302,
    "kill": 62,
    "tkill": 200,
    "tgkill": 234,
    "rt_sigqueueinfo": 129,
    "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "socket": 41,
    "clone": 56,
    "clone3": 435,
    "io_uring_setup": 425,
    "truncate": 76,
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "fchmodat2": 452,
    "chown": 92,
    "lchown": 94,
    "fchown": 93,
    "fchownat": 260,
    "utime": 132,
    "utimes": 235,
    "futimesat": 261,
    "utimensat": 280,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "semtimedop": 220,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "mq_open": 240,
    "mq_unlink": 241,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "process_madvise": 440,
    "pidfd_getfd": 438,
    "kcmp": 312,
    "move_pages": 279,
    "migrate_pages": 256,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "memfd_create": 319,
    "memfd_secret": 447,
    "open_by_handle_at": 304,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "quotactl": 179,
    "syslog": 103,
    "acct": 163,
}
NEWEST = 462
"""`mseal`; calls that came after it are answered as by a kernel without them."""

_MISSING = {"clone3", "io_uring_setup"}
"""Answered as by an older kernel: runtimes then take the older way."""

_SELF_ONLY = {"sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr", "prlimit64"}
_SIGNALS = {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "pidfd_open"}
_OF_OTHERS = {
    *("setpriority", "ioprio_set", "socket"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
}
"""What reaches others' processes, files or the network where no namespace stands between."""

_ALWAYS = CALLS.keys() - _SELF_ONLY - _SIGNALS - _OF_OTHERS - _MISSING - {"clone", "truncate"}

_NAMESPACES = 0x7E020000
"""The flags of clone that make namespaces."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X86_64, _X32_BIT = 0xC000003E, 0x40000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


@functools.cache
def contained() -> bytes:
    """Return the filter for programs in namespaces of their own."""
    return refusing(_ALWAYS)


def refusing(names: Iterable[str]) -> bytes:
    """Return a filter that refuses these calls, and a `clone` that makes namespaces."""
    return _assembled(_refuse(names))


def exposed(own_pid: int, *, scoped_signals: bool, truncates: bool) -> bytes:
    """Return the filter for a program that shares its namespaces with the user's processes.

    Args:
        own_pid: the program's own process, which it may signal: `abort` does.
        scoped_signals: something else keeps signals inside.
        truncates: something else guards files against `truncate`.
    """
    rules = _refuse(_ALWAYS | _OF_OTHERS | (set() if truncates else {"truncate"}))
    for name in sorted(_SELF_ONLY):
        rules += _refuse_unless(name, {0})
    if not scoped_signals:
        rules += _refuse_unless("tgkill", {own_pid}) + _refuse_unless("kill", {own_pid})
        rules += _refuse(_SIGNALS - {"tgkill", "kill"})
    return _assembled(rules)


def _assembled(rules: list[bytes]) -> bytes:
    return b"".join(
        [
            _step(_LOAD, _ARCHITECTURE_AT),
            _step(_EQUAL, _X86_64, 1, 0),
            _step(_RETURN, _KILL),
            _step(_LOAD, _NUMBER_AT),
            _step(_AT_LEAST, _X32_BIT, 0, 1),
            _step(_RETURN, _KILL),
            _step(_AT_LEAST, NEWEST + 1, 0, 1),
            _step(_RETURN, _REFUSE | errno.ENOSYS),
            *_refuse(_MISSING, errno.ENOSYS),
            *rules,
            _step(_EQUAL, CALLS["clone"], 0, 3),
            _step(_LOAD, _ARGUMENTS_AT),
            _step(_ANY_BIT, _NAMESPACES, 0, 1),
            _step(_RETURN, _REFUSE | errno.EPERM),
            _step(_RETURN, _ALLOW),
        ]
    )


def _refuse(names: Iterable[str], error: int = errno.EPERM) -> list[bytes]:
    return [
        step for name in sorted(names) for step in (_step(_EQUAL, CALLS[name], 0, 1), _step(_RETURN, _REFUSE | error))
    ]


def _refuse_unless(name: str, first_argument: set[int]) -> list[bytes]:
    """Refuse a call unless its first argument, 32 bits wide, is one of these."""
    allowed = [step for value in first_argument for step in (_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW))]
    body = [_step(_LOAD, _ARGUMENTS_AT), *allowed, _step(_RETURN, _REFUSE | errno.EPERM)]
    return [_step(_EQUAL, CALLS[name], 0, len(body)), *body]


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
