"""Wrappers that forward to another graph or dataset, except where a subclass overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.graph import Graph, Tolerance
from mlbench.contracts.precision import Precision

if TYPE_CHECKING:
    import numpy as np
    import torch


class WrappedGraph(Graph):
    """Forwards to another graph. A subclass that changes the computation needs its own fingerprint."""

    def __init__(self, graph: Graph) -> None:
        """Copy a graph's name and tensors."""
        self.wrapped = graph
        self.name, self.inputs, self.outputs, self.state = graph.name, graph.inputs, graph.outputs, graph.state
        self.state_keeps_types = graph.state_keeps_types
        self.unquantized, self.calibration_id = graph.unquantized, graph.calibration_id
        self.is_used_once = self.is_used_once or graph.is_used_once

    def module(self) -> torch.nn.Module:
        """Return the graph's module."""
        return self.wrapped.module()

    def onnx(self) -> Path:
        """Return the graph's file."""
        return self.wrapped.onnx()

    def calibration(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the graph's inputs."""
        return self.wrapped.calibration()

    def precision(self, asked: Precision) -> Precision:
        """Return the graph's precision."""
        return self.wrapped.precision(asked)

    def tolerance(self, precision: Precision) -> Tolerance:
        """Return the graph's tolerance."""
        return self.wrapped.tolerance(precision)

    @property
    def code(self) -> frozenset[str]:
        """The code of the wrapper and of the graph."""
        return super().code | self.wrapped.code

    @property
    def fingerprint(self) -> str:
        """The graph's fingerprint."""
        return self.wrapped.fingerprint


class WrappedDataset(Dataset):
    """Forwards to another dataset, with the same samples."""

    def __init__(self, dataset: Dataset) -> None:
        """Copy a dataset's counts."""
        self.wrapped = dataset
        self.count, self.performance_count = dataset.count, dataset.performance_count

    @property
    def fingerprint(self) -> str:
        """The dataset's fingerprint."""
        return self.wrapped.fingerprint

    def load(self, indices: Sequence[int]) -> None:
        """Load samples of the dataset."""
        self.wrapped.load(indices)

    def unload(self, indices: Sequence[int]) -> None:
        """Free samples of the dataset."""
        self.wrapped.unload(indices)

    def sample(self, index: int) -> Any:
        """Return a sample of the dataset."""
        return self.wrapped.sample(index)
