"""Repeated calls with the same shapes, recorded as CUDA graphs and replayed."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from mlbench.errors import first_line
from mlbench.toolkit.batch_sizes import BatchSizes

logger = logging.getLogger(__name__)

MOST_RECORDED = 64
"""With one more, the one that was used longest ago is given up: a recorded call keeps its inputs and outputs."""

MOST_KNOWN = 1024
"""Combinations of shapes that are remembered, the last used ones."""

_BEFORE_RECORDING = 2
"""Calls with the same shapes that run as usual first: recording pays only for repeated shapes."""

_MOST_REFUSED = 3
"""As many combinations of shapes that cannot be recorded, with none that can, and no other one is tried."""

_RECORDING = threading.Lock()
"""Held while a call is recorded: workers record one after the other."""

Tensors = Sequence[torch.Tensor]

Compute = Callable[[Tensors], Tensors]


class Recording(Protocol):
    """A recorded call."""

    @property
    def outputs(self) -> Tensors:
        """Outputs of each replay."""

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
            # by default what another worker's thread does on the GPU meanwhile would end the recording
            recorded = torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local")
            try:
                with _RECORDING, recorded:
                    outputs = compute()
            except RuntimeError:
                torch.cuda.synchronize(self.device)
                raise
        return _CudaRecording(graph, outputs)


@dataclass(slots=True)
class _Shapes:
    """Facts about calls with certain shapes."""

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
        self._refused = 0
        self._has_recorded = False

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
        if known.calls > _BEFORE_RECORDING and not known.recording and self._may_record(known):
            self._start_recording(known, inputs)
        if known.recording:
            for fixed, given in zip(known.inputs, inputs, strict=True):
                fixed.copy_(given)
            known.recording.replay()
            return known.recording.outputs
        if self._separate and known.calls == _BEFORE_RECORDING:
            known.compute = self._separate()
        return (known.compute or self._compute)([*inputs, *state])

    def _may_record(self, known: _Shapes) -> bool:
        return not known.is_refused and (self._has_recorded or self._refused < _MOST_REFUSED)

    def _start_recording(self, known: _Shapes, inputs: Tensors) -> None:
        """Record a call of these shapes, unless it cannot be recorded; make room for it before."""
        recorded = [shapes for shapes, each in self._known.items() if each.recording]
        if len(recorded) >= MOST_RECORDED:
            del self._known[recorded[0]]
        beside = next((each.recording for each in reversed(self._known.values()) if each.recording), None)
        fixed, compute = [tensor.clone() for tensor in inputs], known.compute or self._compute
        try:
            known.recording = self._record(lambda: compute([*fixed, *self._state]), beside)
            known.inputs, self._has_recorded = fixed, True
        except RuntimeError as error:
            logger.info("a call cannot be recorded, and runs as usual: %s", first_line(error))
            known.is_refused, known.compute = True, None
            self._refused += 1


@dataclass(frozen=True, slots=True)
class _Batch:
    """A recorded call of a batch."""

    inputs: Tensors
    recording: Recording


class ReplayedBatches:
    """Calls whose tensors have one row for each sample, and rows do not depend on each other.

    Starting the kernels of a small batch takes longer than running them. A call is recorded when a batch of its size
    comes for the second time, as all powers of two do in warming up. A smaller batch is computed by the recording of
    the next larger one, if that has less than twice its rows: what its other rows hold is left from earlier calls.
    """

    def __init__(self, compute: Compute, record: Recorder) -> None:
        """Store what makes a call, and what records one."""
        self._compute = compute
        self._record = record
        self._seen: set[int] = set()
        self._sizes = BatchSizes()
        self._batches: dict[int, _Batch] = {}
        self._is_refused = False

    def __call__(self, inputs: Tensors) -> Tensors:
        """Compute the outputs; the next call may overwrite them."""
        rows = len(inputs[0])
        size = self._sizes.serving(rows) or self._recorded(inputs)
        if size is None:
            return self._compute(inputs)
        batch = self._batches[size]
        for fixed, given in zip(batch.inputs, inputs, strict=True):
            fixed[:rows].copy_(given)
        batch.recording.replay()
        return [tensor[:rows] for tensor in batch.recording.outputs]

    def _recorded(self, inputs: Tensors) -> int | None:
        """Record a call, if its size came before, and return that; None if it did not, or cannot be recorded."""
        size = len(inputs[0])
        if size not in self._seen or self._is_refused or len(self._sizes) >= MOST_RECORDED:
            self._seen.add(size)
            return None
        fixed, beside = [tensor.clone() for tensor in inputs], next(iter(self._batches.values()), None)
        try:
            recording = self._record(lambda: self._compute(fixed), beside.recording if beside else None)
        except RuntimeError as error:
            logger.info("batches cannot be recorded, and run as usual: %s", first_line(error))
            self._is_refused = True
            return None
        self._batches[size] = _Batch(fixed, recording)
        self._sizes.add(size)
        return size
