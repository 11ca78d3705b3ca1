"""Sessions that see batches of one size each, where a session plans its convolutions anew for every other size."""

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

    On NVIDIA's GPUs a session keeps the plans of its convolutions for the last size alone. Where sizes change from call
    to call, as in Server, making them again took 600 ms a call for a mini ResNet-50 whose batches take 1 ms, and 100 ms
    with ``cudnn_conv_algo_search=HEURISTIC`` (ONNX Runtime 1.31 on an H100).
    """

    def __init__(self, first: Executable, load: Callable[[], Executable], graph: Graph) -> None:
        """Store what makes sessions.

        Args:
            first: a session that has not run yet.
            load: loads another.
            graph: calls of it differ in the number of rows alone, and rows do not depend on each other.
        """
        self._unused: Executable | None = first
        self._load = load
        self._inputs = [spec.name for spec in graph.inputs]
        self._sizes = BatchSizes()
        self._sessions: dict[int, Executable] = {}
        self._last = first

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
        """Load a session for a size, and return that; None where there are enough of them."""
        if len(self._sizes) >= MOST_SESSIONS:
            logger.info("batches of %d run in a session of other sizes, which plans its convolutions anew", size)
            return None
        self._last, self._unused = self._unused or self._load(), None
        self._sessions[size] = self._last
        self._sizes.add(size)
        return size


def _with_rows(array: np.ndarray, rows: int) -> np.ndarray:
    """Return an array with its last row repeated up to so many rows."""
    return np.concatenate([array, np.broadcast_to(array[-1:], (rows - len(array), *array.shape[1:]))])
