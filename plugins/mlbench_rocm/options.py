"""The settings of the ROCm backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlbench.toolkit import TorchOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmOptions(TorchOptions):
    """Options of the ROCm backend, besides those of all torch backends."""

    matrix_library: Literal["default", "hipblas", "hipblaslt", "ck"] = "default"
    """Library for matrix products; ``default``: torch's choice for the architecture."""
    attention_library: Literal["default", "aotriton", "ck"] = "default"
    """Library for fused attention."""
    tune: bool = False
    """Time the kernels of each new matrix product at its first call, and keep the fastest (TunableOp)."""
