"""Calls that come again with the same shapes, recorded once and replayed by the GPU on its own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

logger = logging.getLogger(__name__)

MOST_RECORDED = 64
"""Each recorded call keeps its intermediate results' memory, which they share as far as they can."""

_BEFORE_RECORDING = 2
"""Calls with the same shapes that run as usual first: shapes that never come again are not worth it."""


@dataclass(frozen=True, slots=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]


class ReplayedCalls:
    """A decode step is hundreds of small kernels, and starting them one by one takes longer than running them.

    A recording reads and writes fixed addresses, those of the state among them: with another state all begins anew.
    """

    def __init__(self, compute: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]) -> None:
        self._compute = compute
        self._state: Sequence[torch.Tensor] = ()
        self._recordings: dict[tuple[torch.Size, ...], _Recording | None] = {}
        self._seen: Counter[tuple[torch.Size, ...]] = Counter()

    def __call__(self, inputs: Sequence[torch.Tensor], state: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Compute the outputs; the next call may overwrite them."""
        if state is not self._state:
            self._state = state
            self._recordings.clear()
            self._seen.clear()
        shapes = tuple(tensor.shape for tensor in inputs)
        self._seen[shapes] += 1
        if shapes not in self._recordings:
            if self._seen[shapes] <= _BEFORE_RECORDING or len(self._recordings) == MOST_RECORDED:
                return self._compute([*inputs, *state])
            self._recordings[shapes] = self._recorded(inputs)
        if (recording := self._recordings[shapes]) is None:
            return self._compute([*inputs, *state])
        for fixed, given in zip(recording.inputs, inputs, strict=True):
            fixed.copy_(given)
        recording.graph.replay()
        return recording.outputs

    def _recorded(self, inputs: Sequence[torch.Tensor]) -> _Recording | None:
        """Record a call; None where the module does what cannot be recorded, such as waiting for the GPU's answer."""
        fixed, graph = [tensor.clone() for tensor in inputs], torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                outputs = self._compute([*fixed, *self._state])
        except RuntimeError as error:
            logger.info("a call cannot be recorded, and runs as usual: %s", str(error).splitlines()[0])
            torch.cuda.synchronize()
            return None
        return _Recording(graph, fixed, outputs)
