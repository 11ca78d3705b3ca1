"""The system calls that programs in the sandbox do without, as a seccomp filter."""

from __future__ import annotations

import errno
import functools
import struct
from collections.abc import Iterable

from mlbench.toolkit.sandbox.calls import ARCHITECTURE, CALLS, REFUSED

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

_ALWAYS = REFUSED - _SELF_ONLY - _SIGNALS - _OF_OTHERS - _MISSING - _BY_ARGUMENT - {"truncate"}
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
_X32_BIT = 0x40000000
"""Set in the numbers of calls with short pointers on x86-64; no other machine has such numbers."""
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
            _step(_EQUAL, ARCHITECTURE, 1, 0),
            _step(_RETURN, _KILL),
            _step(_LOAD, _NUMBER_AT),
            _step(_AT_LEAST, _X32_BIT, 0, 1),
            _step(_RETURN, _KILL),
            _step(_AT_LEAST, NEWEST + 1, 0, 1),
            _step(_RETURN, _REFUSE | errno.ENOSYS),
            *rules,
            *_refuse_if("clone", [(0, _ANY_BIT, _NAMESPACES)]),
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
    return _only_for(name, [*tests, _step(_RETURN, _REFUSE | errno.EPERM), _step(_LOAD, _NUMBER_AT)])


def _refuse(names: Iterable[str], error: int = errno.EPERM) -> list[bytes]:
    return [step for name in sorted(names) for step in _only_for(name, [_step(_RETURN, _REFUSE | error)])]


def _refuse_unless(name: str, first_argument: set[int]) -> list[bytes]:
    """Refuse a call unless its first argument, 32 bits wide, is one of these."""
    allowed = [step for value in first_argument for step in (_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW))]
    return _only_for(name, [_step(_LOAD, _ARGUMENTS_AT), *allowed, _step(_RETURN, _REFUSE | errno.EPERM)])


def _only_for(name: str, steps: list[bytes]) -> list[bytes]:
    """Return steps that other calls pass by; none for a call that this machine does not have."""
    return [_step(_EQUAL, CALLS[name], 0, len(steps)), *steps] if name in CALLS else []


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
