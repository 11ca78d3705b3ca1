"""System calls that the sandbox refuses, on this kind of machine and, by their filter alone, on another."""

import errno
import importlib
import os
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlbench.toolkit.sandbox import calls, seccomp

AARCH64, X86_64 = 0xC00000B7, 0xC000003E
ALLOWED, KILLED, REFUSED, UNKNOWN = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
SOCKET, OPENAT, PRLIMIT, PTRACE, CLONE, CLONE3 = 198, 56, 261, 117, 220, 435
"""Of aarch64; 56 and 220 are clone and semtimedop on x86-64."""
NEW_USER_NAMESPACE, NEW_THREAD = 0x10000000, 0x3D0F00


@pytest.fixture
def on_machine(monkeypatch):
    """Import the numbers and the filter as on another machine, and as they were again."""

    def on_machine(name):
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=name))
        return importlib.reload(calls), importlib.reload(seccomp)

    yield on_machine
    monkeypatch.undo()
    importlib.reload(calls)
    importlib.reload(seccomp)


def answer(program, number, *arguments, architecture):
    """Return what the kernel would: classic BPF over the call's data (linux/seccomp.h)."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *words)
    steps, at, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x06:
                return operand
            case _:
                holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
                at += if_true if holds else if_false


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")],
)
def test_numbers_of_system_calls_are_the_kernels(on_machine, machine, header):
    file = Path("/usr/include", header)
    if not file.is_file():
        pytest.skip("no kernel headers are installed")
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read_text()))
    ours, _ = on_machine(machine)
    known = {name: number for name, number in ours.CALLS.items() if name in numbers}
    assert len(known) > 60
    assert known == {name: int(numbers[name]) for name in known}


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_filter_of_aarch64_refuses_its_calls_and_kills_those_of_others(on_machine, is_shared):
    _, there = on_machine("aarch64")
    program = (
        there.filter_for_shared_namespaces(77, scoped_signals=False, truncates=True)
        if is_shared
        else there.filter_for_namespaces()
    )

    def says(number, *arguments):
        return answer(program, number, *arguments, architecture=AARCH64)

    assert says(OPENAT) == says(CLONE, NEW_THREAD) == ALLOWED
    assert says(CLONE, NEW_USER_NAMESPACE) == says(SOCKET, 2, 1) == says(PTRACE) == REFUSED
    assert says(CLONE3) == says(463) == UNKNOWN
    assert says(PRLIMIT, 5) == (REFUSED if is_shared else ALLOWED)
    assert answer(program, OPENAT, architecture=X86_64) == KILLED


def test_a_filter_of_an_unknown_machine_lets_nothing_run(on_machine):
    ours, there = on_machine("riscv64")
    with pytest.raises(OSError, match="only for x86-64 and aarch64, not riscv64"):
        ours.require_known_machine()
    for architecture in (X86_64, AARCH64, 0xC00000F3):
        assert answer(there.filter_for_namespaces(), OPENAT, architecture=architecture) == KILLED
