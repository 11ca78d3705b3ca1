"""A session of a graph without state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnxruntime import OrtValue

from mlbench import Graph
from mlbench_onnxruntime.providers import Place


class HostSession:
    """Runs a session whose tensors lie in the CPU's memory."""

    def __init__(self, session: Any, graph: Graph) -> None:
        self._session = session
        self._inputs = [spec.name for spec in graph.inputs]
        self._outputs = [spec.name for spec in graph.outputs]

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own."""
        found = self._session.run(self._outputs, {name: inputs[name] for name in self._inputs})
        return dict(zip(self._outputs, found, strict=True))


class BoundSession:
    """Runs a session whose tensors lie on a device: inputs and outputs are copied there and back once a call."""

    def __init__(self, session: Any, graph: Graph, place: Place) -> None:
        self._session = session
        self._inputs = [spec.name for spec in graph.inputs]
        self._outputs = [spec.name for spec in graph.outputs]
        self._where = (place.memory, place.device)

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own."""
        binding = self._session.io_binding()
        for name in self._inputs:
            value = OrtValue.ortvalue_from_numpy(np.ascontiguousarray(inputs[name]), *self._where)
            binding.bind_ortvalue_input(name, value)
        for name in self._outputs:
            binding.bind_output(name, *self._where)
        self._session.run_with_iobinding(binding)
        return dict(zip(self._outputs, binding.copy_outputs_to_cpu(), strict=True))
