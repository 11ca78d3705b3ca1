"""The settings of the CPU backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAmxOptions:
    """Options of the CPU backend."""

    threads: Annotated[int, Ge(0), Le(1024)] = 0
    """Threads per operator; 0: one per physical core, divided among ``execution.workers``."""
    isa: Literal["auto", "amx", "avx512", "avx2"] = "auto"
    """Best instruction set to use; ``auto``: the best of the CPU. One that the CPU lacks is refused."""
