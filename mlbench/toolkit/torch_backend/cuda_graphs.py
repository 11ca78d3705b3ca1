"""Repeated calls with the same shapes, recorded as CUDA graphs and replayed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mlbench.errors import first_line

logger = logging.getLogger(__name__)

MOST_RECORDED = 64
"""With one more, the one that was used longest ago is given up: a recorded call keeps its inputs and outputs."""

MOST_KNOWN = 1024
"""Combinations of shapes that are remembered, the last used ones."""

_BEFORE_RECORDING = 2
"""Calls with the same shapes that run as usual first: recording pays only for repeated shapes."""

Tensors = Sequence[torch.Tensor]

Compute = Callable[[Tensors], Tensors]


class Recording(Protocol):
    """A recorded call."""

    @property
    def outputs(self) -> Tensors:
        """Where each replay leaves them."""

    def replay(self) -> None:
        """Compute again: read from where the recorded call read, and write to where it wrote."""


class Recorder(Protocol):
    """Records calls."""

    def __call__(self, compute: Callable[[], Tensors], beside: Recording | None) -> Recording:
        """Record a call without carrying it out.

        Args:
            compute: makes the call.
            beside: an earlier recording that is still kept and never runs at the same time: they may share memory.

        Raises:
            RuntimeError: the call does what cannot be recorded, such as waiting for the GPU's answer.
        """


@dataclass(frozen=True, slots=True)
class _CudaRecording:
    graph: Any
    outputs: Tensors

    def replay(self) -> None:
        self.graph.replay()


class CudaRecorder:
    """Records calls on one GPU, whichever is the current one, all of them on one stream."""

    def __init__(self, device: torch.device) -> None:
        """Store the GPU that the tensors are on: what is done on another one would not be recorded, nor replayed."""
        self.device = device
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, compute: Callable[[], Tensors], beside: Recording | None) -> Recording:
        """Record a call, in the memory of the one beside it."""
        with torch.cuda.device(self.device):
            # by default torch takes a stream of the GPU that was current when the process recorded its first call
            self._stream = self._stream or torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            graph = torch.cuda.CUDAGraph()
            pool = beside.graph.pool() if isinstance(beside, _CudaRecording) else None
            try:
                with torch.cuda.graph(graph, pool=pool, stream=self._stream):
                    outputs = compute()
            except RuntimeError:
                torch.cuda.synchronize(self.device)
                raise
        return _CudaRecording(graph, outputs)


@dataclass(slots=True)
class _Shapes:
    """What is known of calls with certain shapes."""

    calls: int = 0
    compute: Compute | None = None
    """Theirs alone, once they come again."""
    inputs: Tensors = ()
    recording: Recording | None = None
    is_refused: bool = False
    """Whether they cannot be recorded."""


class ReplayedCalls:
    """A decode step is hundreds of small kernels, and starting them one by one takes longer than running them.

    A recording reads and writes fixed addresses, those of the state among them: with another state all begins anew.
    Recordings share their memory, since one runs at a time and its outputs are read before the next.
    """

    def __init__(self, compute: Compute, record: Recorder, separate: Callable[[], Compute] | None = None) -> None:
        """Store what computes.

        Args:
            compute: makes a call.
            record: records one.
            separate: returns what makes calls of one combination of shapes and no others, where a recording is only
                good while what was recorded sees no other shapes. It makes a call before one is recorded.
        """
        self._compute = compute
        self._record = record
        self._separate = separate
        self._state: Tensors = ()
        self._known: OrderedDict[tuple[torch.Size, ...], _Shapes] = OrderedDict()

    def __call__(self, inputs: Tensors, state: Tensors) -> Tensors:
        """Compute the outputs; the next call may overwrite them."""
        if state is not self._state:
            self._state = state
            self._known.clear()
        shapes = tuple(tensor.shape for tensor in inputs)
        known = self._known.setdefault(shapes, _Shapes())
        self._known.move_to_end(shapes)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        known.calls += 1
        if known.calls > _BEFORE_RECORDING and not known.recording and not known.is_refused:
            self._start_recording(known, inputs)
        if known.recording:
            for fixed, given in zip(known.inputs, inputs, strict=True):
                fixed.copy_(given)
            known.recording.replay()
            return known.recording.outputs
        if self._separate and known.calls == _BEFORE_RECORDING:
            known.compute = self._separate()
        return (known.compute or self._compute)([*inputs, *state])

    def _start_recording(self, known: _Shapes, inputs: Tensors) -> None:
        """Record a call of these shapes, unless it cannot be recorded; make room for it before."""
        recorded = [shapes for shapes, each in self._known.items() if each.recording]
        if len(recorded) >= MOST_RECORDED:
            del self._known[recorded[0]]
        beside = next((each.recording for each in reversed(self._known.values()) if each.recording), None)
        fixed, compute = [tensor.clone() for tensor in inputs], known.compute or self._compute
        try:
            known.recording = self._record(lambda: compute([*fixed, *self._state]), beside)
            known.inputs = fixed
        except RuntimeError as error:
            logger.info("a call cannot be recorded, and runs as usual: %s", first_line(error))
            known.is_refused, known.compute = True, None
