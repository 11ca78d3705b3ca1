"""The settings of the ONNX Runtime backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le

from mlbench import RUNS_CODE, Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRuntimeOptions:
    """Options of the ONNX Runtime backend."""

    provider: str = "cpu"
    """The execution provider: ``cpu``, ``cuda``, ``tensorrt``, or ONNX Runtime's own name
    (``CUDAExecutionProvider``)."""
    device: Annotated[int, Ge(0)] = 0
    """Number of the provider's device."""
    provider_options: Annotated[Mapping[str, str], RUNS_CODE] = field(default_factory=dict)
    """The provider's own options, as ONNX Runtime documents them: ``device_type=GPU,precision=FP16``."""
    threads: Annotated[int, Ge(0), Le(1024)] = 0
    """Threads per operator; 0: one per physical core that the process may use, divided among ``execution.workers``."""
    optimization: Annotated[Literal["none", "basic", "extended", "all"], Tunable(("basic", "extended", "all"))] = "all"
    """Level of graph optimisation when a session loads."""
    spinning: Annotated[bool, Tunable((False, True))] = False
    """Whether idle worker threads busy-wait (spin) instead of sleeping: they start faster, but slow down all other
    threads."""
    per_channel: bool = True
    """int8: a scale per output channel of a weight, instead of one per weight."""
