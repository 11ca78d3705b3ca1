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
    "mmap": 9,
    "fcntl": 72,
    "setsockopt": 54,
    "prctl": 157,
    "inotify_add_watch": 254,
    "fanotify_init": 300,
    "vmsplice": 278,
    "splice": 275,
    "tee": 276,
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

_MISSING = {"clone3", "io_uring_setup", "vmsplice", "splice", "tee"}
"""Answered as by an older kernel: runtimes then take the older way. The last three hold memory in pipes."""

_SELF_ONLY = {"sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr", "prlimit64"}
_SIGNALS = {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "pidfd_open"}
_OF_OTHERS = {
    *("setpriority", "ioprio_set"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
}
"""What reaches others' processes and files where no namespace stands between."""

_BY_ARGUMENT = {"clone", "mmap", "fcntl", "setsockopt", "prctl"}
"""Refused with some arguments."""

_ALWAYS = CALLS.keys() - _SELF_ONLY - _SIGNALS - _OF_OTHERS - _MISSING - _BY_ARGUMENT - {"truncate"}
"""Among them all that holds memory which no limit counts: System V's segments and messages, files without a name,
attributes of files, watches, and sockets that queue unread data.
"""

_MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWS_DOWN = 0x01, 0x20, 0x100
_SET_PIPE_SIZE, _SET_DUMPABLE = 1031, 4
_SOL_SOCKET, _SO_SNDBUF = 1, 7

_NAMESPACES = 0x7E020000
"""The flags of clone that make namespaces."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ARGUMENT_BYTES = 8
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X86_64, _X32_BIT = 0xC000003E, 0x40000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


@functools.cache
def filter_for_namespaces() -> bytes:
    """Return the filter for programs in namespaces of their own."""
    return _assemble(_refuse(_MISSING, errno.ENOSYS) + _refuse(_ALWAYS) + _bounded_memory())


def refusing(names: Iterable[str]) -> bytes:
    """Return a filter that refuses these calls, and a `clone` that makes namespaces."""
    return _assemble(_refuse(names))


def filter_for_shared_namespaces(own_pid: int, *, scoped_signals: bool, truncates: bool) -> bytes:
    """Return the filter for a program that shares its namespaces with the user's processes.

    Args:
        own_pid: the program's own process, which it may signal: `abort` does.
        scoped_signals: something else keeps signals inside.
        truncates: something else guards files against `truncate`.
    """
    rules = _refuse(_MISSING, errno.ENOSYS) + _refuse(_ALWAYS | _OF_OTHERS | (set() if truncates else {"truncate"}))
    for name in sorted(_SELF_ONLY):
        rules += _refuse_unless(name, {0})
    if not scoped_signals:
        rules += _refuse_unless("tgkill", {own_pid}) + _refuse_unless("kill", {own_pid})
        rules += _refuse(_SIGNALS - {"tgkill", "kill"})
    return _assemble(rules + _bounded_memory())


def _assemble(rules: list[bytes]) -> bytes:
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
            *rules,
            _step(_EQUAL, CALLS["clone"], 0, 3),
            _step(_LOAD, _ARGUMENTS_AT),
            _step(_ANY_BIT, _NAMESPACES, 0, 1),
            _step(_RETURN, _REFUSE | errno.EPERM),
            _step(_RETURN, _ALLOW),
        ]
    )


def _bounded_memory() -> list[bytes]:
    """Refuse memory that outlives its mapping or counts as a stack, buffers that grow, and hiding what is open.

    After each block the number of the call has been loaded again.
    """
    return [
        *_refuse_if("mmap", [(3, _ANY_BIT, _MAP_SHARED), (3, _ANY_BIT, _MAP_ANONYMOUS)]),
        *_refuse_if("mmap", [(3, _ANY_BIT, _MAP_GROWS_DOWN)]),
        *_refuse_if("fcntl", [(1, _EQUAL, _SET_PIPE_SIZE)]),
        *_refuse_if("setsockopt", [(1, _EQUAL, _SOL_SOCKET), (2, _EQUAL, _SO_SNDBUF)]),
        *_refuse_if("prctl", [(0, _EQUAL, _SET_DUMPABLE)]),
    ]


def _refuse_if(name: str, conditions: list[tuple[int, int, int]]) -> list[bytes]:
    """Refuse a call when all conditions hold: (number of the argument, comparison, value), 32 bits wide."""
    tests: list[bytes] = []
    for left, (argument, comparison, value) in zip(range(len(conditions) - 1, -1, -1), conditions, strict=True):
        tests.append(_step(_LOAD, _ARGUMENTS_AT + argument * _ARGUMENT_BYTES))
        tests.append(_step(comparison, value, 0, 2 * left + 1))
    body = [*tests, _step(_RETURN, _REFUSE | errno.EPERM), _step(_LOAD, _NUMBER_AT)]
    return [_step(_EQUAL, CALLS[name], 0, len(body)), *body]


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
