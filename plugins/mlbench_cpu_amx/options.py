"""The settings of the CPU backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAmxOptions:
    """What can be set on the CPU backend."""

    threads: Annotated[int, Ge(0), Le(1024)] = 0
    """Threads per operator; 0: one per physical core, shared out among ``execution.workers``."""
    isa: Literal["auto", "amx", "avx512", "avx2"] = "auto"
    """The best instruction set to use; ``auto``: the best that the CPU has. One that it lacks is refused."""
