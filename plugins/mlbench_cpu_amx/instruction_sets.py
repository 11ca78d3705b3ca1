"""Instruction sets of a CPU, and ways to limit torch and oneDNN to some of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set

from mlbench import UsageError

NEEDS: Mapping[str, frozenset[str]] = {
    "amx": frozenset({"amx_tile", "amx_bf16", "amx_int8", "avx512f"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq"}),
    "avx2": frozenset({"avx2", "fma"}),
}
"""Flags in /proc/cpuinfo that each instruction set needs, the best first."""

BF16 = "avx512_bf16"
"""The flag of CPUs that multiply bf16: below it oneDNN has no fast kernels, and for some operators none at all."""

LIMITS: Mapping[str, Mapping[str, str]] = {
    "amx": {},
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
"""Environment variables that oneDNN and torch read at their first operator; later changes have no effect."""

VECTOR_BITS = {"avx2": 256}
"""Width of the inductor's vectors; without an entry the machine's width."""


def list_available(flags: Set[str]) -> list[str]:
    """Return the instruction sets that a CPU with these flags has, the best first."""
    return [name for name, needs in NEEDS.items() if needs <= flags]


def choose_instruction_set(asked: str, flags: Set[str]) -> str:
    """Return the instruction set to compute with: the requested one, or for ``auto`` the best.

    Raises:
        UsageError: the CPU lacks it.
    """
    found = list_available(flags)
    if asked == "auto" and found:
        return found[0]
    if asked not in found:
        missing = ", ".join(sorted(NEEDS.get(asked, NEEDS["avx2"]) - flags))
        raise UsageError(
            f"backend.isa is {asked!r}, and this CPU lacks {missing}.",
            hint=f"Choose auto, or from {', '.join(found)}." if found else "Run on another backend.",
        )
    return asked


def limit(isa: str) -> None:
    """Limit torch and oneDNN in this process to an instruction set, unless the user has set a limit."""
    for name, value in LIMITS[isa].items():
        os.environ.setdefault(name, value)
