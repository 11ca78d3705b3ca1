"""Sessions for batches of one size each, for devices on which a session plans convolutions again for every new size."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx

from mlbench import Executable, Graph
from mlbench.toolkit import BatchSizes, has_batches

MOST_SESSIONS = 12
"""Sizes with a session of their own: the powers of two up to the largest batch that counts, and one more."""

MOST_WEIGHT_BYTES = 2**28
"""Each session has a copy of the weights on the device; a larger model has one session."""

PLANNED = frozenset({"Conv", "ConvTranspose"})
"""Operators for which cuDNN is asked which of its kernels to take."""

logger = logging.getLogger(__name__)


def plans_by_size(graph: Graph, file: Path) -> bool:
    """Return whether a session of a file would plan convolutions for each size of a batch, and copies are small."""
    if not has_batches(graph):
        return False
    found = onnx.load(file, load_external_data=False).graph
    weights = sum(
        math.prod(each.dims) * onnx.helper.tensor_dtype_to_np_dtype(each.data_type).itemsize
        for each in found.initializer
    )
    return weights <= MOST_WEIGHT_BYTES and any(node.op_type in PLANNED for node in found.node)


class SessionsBySize:
    """A batch is computed by the session of its size, or of the next larger one with less than twice its rows.

    On NVIDIA's GPUs a session keeps the plans of its convolutions for the last size alone, and making them takes
    some hundred times as long as a batch (decision 48). Where sizes change from call to call, as in Server, it would do
    little else.
    """

    def __init__(self, load: Callable[[], Executable], graph: Graph) -> None:
        """Load the first session.

        Args:
            load: loads one.
            graph: calls of it differ in the number of rows alone, and rows do not depend on each other.

        Raises:
            GraphError: it does not load.
        """
        self._load = load
        self._inputs = [spec.name for spec in graph.inputs]
        self._sizes = BatchSizes()
        self._sessions: dict[int, Executable] = {}
        self._last = load()

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own."""
        rows = len(inputs[self._inputs[0]])
        size = self._sizes.serving(rows) or self._added(rows)
        if size is None:
            return self._last(inputs)
        if size == rows:
            return self._sessions[size](inputs)
        found = self._sessions[size]({name: _with_rows(inputs[name], size) for name in self._inputs})
        return {name: array[:rows] for name, array in found.items()}

    def _added(self, size: int) -> int | None:
        """Give a size a session, and return that; None where there are enough of them."""
        if len(self._sizes) >= MOST_SESSIONS:
            return None
        if self._sessions:
            self._last = self._load()
        self._sessions[size] = self._last
        self._sizes.add(size)
        if len(self._sizes) == MOST_SESSIONS:
            logger.info("batches of other sizes share the session of %d, which plans its convolutions anew", size)
        return size


def _with_rows(array: np.ndarray, rows: int) -> np.ndarray:
    """Return an array with its last row repeated up to so many rows."""
    return np.concatenate([array, np.broadcast_to(array[-1:], (rows - len(array), *array.shape[1:]))])
