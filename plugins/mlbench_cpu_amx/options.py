"""The settings of the CPU backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuAmxOptions:
    """What can be set on the CPU backend."""

    threads: int = 0
    """Per operator; 0: one per physical core, shared out among `EnginePlan.workers`."""
    isa: Literal["auto", "amx", "avx512", "avx2"] = "auto"
    """The best instruction set to use; ``auto``: the best there is. One that the CPU lacks is refused."""
