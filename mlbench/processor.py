"""The processor's flags, as Linux lists them."""

from __future__ import annotations

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
