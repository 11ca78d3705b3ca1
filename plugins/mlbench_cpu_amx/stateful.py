"""Graphs with state (language models): their modules, operator by operator, which oneDNN computes too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from mlbench import Graph, GraphError, Precision
from mlbench.toolkit import TorchOptions
from mlbench.toolkit.torch_backend.stateful import StatefulTorchExecutable, TorchState
from mlbench_cpu_amx.kernels import KernelReport

DTYPES = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16}


class StatefulModule(StatefulTorchExecutable):
    """A module that keeps state, which records the kernels of its first call."""

    def __init__(self, graph: Graph, precision: Precision, report: KernelReport) -> None:
        """Build the module.

        Raises:
            GraphError: the precision is int8.
        """
        if precision not in DTYPES:
            raise GraphError(
                f"graph {graph.name} has state, so its ranges are not known beforehand, and {precision} needs them.",
                hint="Choose bf16 or fp32.",
            )
        super().__init__(graph.module(), graph, torch.device("cpu"), DTYPES[precision], TorchOptions(device="cpu"))
        self._name = graph.name
        self._report = report

    def __call__(self, inputs: Mapping[str, np.ndarray], state: TorchState, /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in new memory, and update the state."""
        with self._report.first_call(self._name):
            return super().__call__(inputs, state)
