"""The settings of the ROCm backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlbench.toolkit import TorchOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmOptions(TorchOptions):
    """What can be set on the ROCm backend, besides what torch backends share."""

    matrix_library: Literal["default", "hipblas", "hipblaslt", "ck"] = "default"
    """Which library multiplies matrices; ``default``: torch's choice for the architecture."""
    attention_library: Literal["default", "aotriton", "ck"] = "default"
    """Which library computes fused attention."""
    tune: bool = False
    """Time the kernels of each new matrix product at its first call, and keep the fastest (TunableOp)."""
