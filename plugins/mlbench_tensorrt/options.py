"""The settings of the TensorRT backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRtOptions:
    """Options of the TensorRT backend."""

    device: Annotated[int, Ge(0)] = 0
    """Number of the GPU."""
    optimization_level: Annotated[int, Ge(0), Le(5)] = 3
    """Effort of TensorRT's search for faster kernels, from 0 to 5."""
    workspace_mb: Annotated[int, Ge(0), Le(2**30)] = 0
    """Memory that a kernel may use besides its tensors, in MiB; 0: no limit."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """Caps on dimensions, by name (``rows=64,length=2048``): an engine reserves memory for the largest sizes. The core
    stays below them."""
    per_channel: bool = True
    """int8: a scale per output channel of a weight, instead of one per weight."""
    cuda_graphs: bool = True
    """Record calls whose shapes repeat, and replay them."""
    state_in_place: bool = False
    """Write new state over the old: half the memory and no copy, but TensorRT does not guarantee that it works."""
