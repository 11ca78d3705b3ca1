"""A torch module with state as a callable of NumPy arrays: the state stays on the device, and is updated in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from mlbench.contracts.generation import LENGTH
from mlbench.contracts.graph import Graph, TensorSpec
from mlbench.execution.arrays import copy_rows
from mlbench.toolkit.torch_backend.cuda_graphs import CudaRecorder, ReplayedCalls
from mlbench.toolkit.torch_backend.executable import TorchModule

if TYPE_CHECKING:
    from mlbench.toolkit.torch_backend.options import TorchOptions

TorchState = list[torch.Tensor]


class StatefulTorchExecutable(TorchModule):
    """Runs a module that keeps state.

    Floating point state is kept in the precision that is computed in.
    """

    def __init__(
        self, module: torch.nn.Module, graph: Graph, device: torch.device, dtype: torch.dtype, options: TorchOptions
    ) -> None:
        super().__init__(module, graph, device, dtype, options)
        self._state = graph.state
        self._keeps_types = graph.state_keeps_types
        replays = device.type == "cuda" and options.cuda_graphs
        self._replayed = ReplayedCalls(self.compute, CudaRecorder(device)) if replays else None

    def new_state(self, sizes: Mapping[str, int], /) -> TorchState:
        """Return zeros on the device."""
        return [
            torch.zeros(spec.concrete_shape(sizes), dtype=self._state_dtype(spec), device=self.device)
            for spec in self._state
        ]

    def resize(self, state: TorchState, sizes: Mapping[str, int], /) -> TorchState:
        """Return larger tensors with the old contents at their beginning."""
        grown = self.new_state(sizes)
        for new, old in zip(grown, state, strict=True):
            new[tuple(map(slice, old.shape))] = old
        return grown

    def copy_rows(self, state: TorchState, sources: Sequence[int], targets: Sequence[int], columns: range, /) -> None:
        """Copy these columns of rows."""
        places = None if self.device.type == "cpu" else torch.tensor([sources, targets], device=self.device)
        with torch.inference_mode():
            for spec, tensor in zip(self._state, state, strict=True):
                part = tensor.narrow(spec.axis_of(LENGTH), columns.start, len(columns))
                if places is None:
                    copy_rows(part, sources, targets)
                else:  # in two calls, whatever the number of rows
                    part[places[1]] = part[places[0]]

    def __call__(self, inputs: Mapping[str, np.ndarray], state: TorchState, /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own, and update the state."""
        with self.current_device():
            placed = self.placed(inputs)
            return self.named(self._replayed(placed, state) if self._replayed else self.compute([*placed, *state]))

    def _state_dtype(self, spec: TensorSpec) -> torch.dtype:
        kind: torch.dtype = getattr(torch, spec.dtype)
        return self.dtype if kind.is_floating_point and not self._keeps_types else kind
