"""The inputs of an engine's build, and its cache key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlbench.toolkit import ShapeRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The key of an engine and its timings: the GPU and the version of TensorRT."""

    tensorrt: str
    gpu: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """A file and how it is to be compiled."""

    file: Path
    identity: Mapping[str, str]
    """Identity of the file with its weights: `mlbench.toolkit.onnx_identity`."""
    ranges: Mapping[str, ShapeRange]
    device: int
    optimization_level: int
    workspace_mb: int

    def key(self, platform: Platform) -> Mapping[str, Any]:
        """Return all that decides the engine: neither the file's place nor the GPU's number, but what they hold.

        Args:
            platform: what the GPU is, and which TensorRT builds.
        """
        return {
            **self.identity,
            "ranges": {name: asdict(ranges) for name, ranges in self.ranges.items()},
            "optimization_level": self.optimization_level,
            "workspace_mb": self.workspace_mb,
            "platform": asdict(platform),
        }
