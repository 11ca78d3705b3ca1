"""An engine as a callable of NumPy arrays: an execution context of its own, buffers that torch holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorrt
import torch

from mlbench import LENGTH, NEXT, Graph, TensorSpec
from mlbench.toolkit.torch_backend.cuda_graphs import Compute, CudaRecorder, ReplayedCalls

if TYPE_CHECKING:
    from mlbench_tensorrt.options import TensorRtOptions

DTYPES = {
    tensorrt.DataType.FLOAT: torch.float32,
    tensorrt.DataType.HALF: torch.float16,
    tensorrt.DataType.BF16: torch.bfloat16,
    tensorrt.DataType.INT64: torch.int64,
    tensorrt.DataType.INT32: torch.int32,
    tensorrt.DataType.INT8: torch.int8,
    tensorrt.DataType.UINT8: torch.uint8,
    tensorrt.DataType.BOOL: torch.bool,
}

Tensors = Sequence[torch.Tensor]


class TensorRtExecutable:
    """Runs an engine without state."""

    def __init__(self, engine: tensorrt.ICudaEngine, graph: Graph, device: int, options: TensorRtOptions) -> None:
        self._engine = engine
        self._graph = graph
        self._device = torch.device("cuda", device)
        # for what a call keeps while it runs; contexts share it, since one runs at a time
        self._scratch = torch.empty(max(1, engine.device_memory_size_v2), dtype=torch.uint8, device=self._device)
        self._context = self._new_context()
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        replays = options.cuda_graphs and (not graph.state or options.state_in_place)
        recorder = CudaRecorder(self._device)
        self._call = ReplayedCalls(self._execute, recorder, self._separate) if replays else self._call_once

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in memory of their own."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            return self._named(self._call(self._placed(inputs), ()))

    def _new_context(self) -> tensorrt.IExecutionContext:
        """Return an execution context, in the memory that all contexts of this engine share."""
        context = self._engine.create_execution_context(tensorrt.ExecutionContextAllocationStrategy.USER_MANAGED)
        if context is None:
            raise MemoryError(f"out of memory on {self._device} for an execution context of {self._graph.name}")
        context.set_device_memory(self._scratch.data_ptr(), self._engine.device_memory_size_v2)
        return context

    def _separate(self) -> Compute:
        """Return what runs the engine in a context of its own.

        A recorded call holds what its context was when it was recorded: other shapes in it would change that.
        """
        context = self._new_context()
        return lambda tensors: self._enqueue(context, tensors, tensors[len(self._graph.inputs) :])

    def _placed(self, inputs: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
        """Return the inputs on the device, by way of pinned memory, in the order of the graph."""
        arrays = (np.require(inputs[spec.name], spec.dtype, requirements=["C", "W"]) for spec in self._graph.inputs)
        return [torch.from_numpy(array).pin_memory().to(self._device, non_blocking=True) for array in arrays]

    def _named(self, outputs: Tensors) -> Mapping[str, np.ndarray]:
        """Return copies of the outputs on the CPU, by name, once the device is done."""
        copies = [torch.empty(each.shape, dtype=each.dtype, pin_memory=True) for each in outputs]
        for copy, output in zip(copies, outputs, strict=True):
            copy.copy_(output, non_blocking=True)
        self._stream.synchronize()
        return {spec.name: copy.numpy() for spec, copy in zip(self._graph.outputs, copies, strict=True)}

    def _call_once(self, inputs: Tensors, state: Tensors) -> Tensors:
        return self._execute([*inputs, *state])

    def _execute(self, tensors: Tensors) -> Tensors:
        """Run the engine on tensors of the device; state, where there is some, is updated in place."""
        return self._enqueue(self._context, tensors, tensors[len(self._graph.inputs) :])

    def _enqueue(self, context: tensorrt.IExecutionContext, tensors: Tensors, after: Tensors) -> Tensors:
        """Enqueue a call on the current stream; new state goes to ``after``. Returns the outputs."""
        for spec, tensor in zip((*self._graph.inputs, *self._graph.state), tensors, strict=True):
            if not context.set_input_shape(spec.name, tuple(tensor.shape)):
                raise ValueError(f"{spec.name} has shape {tuple(tensor.shape)}, which the engine was not built for")
            context.set_tensor_address(spec.name, tensor.data_ptr())
        outputs = [self._output(context, spec) for spec in self._graph.outputs]
        for name, tensor in zip(self._output_names(), (*outputs, *after), strict=True):
            context.set_tensor_address(name, tensor.data_ptr())
        if not context.execute_async_v3(torch.cuda.current_stream(self._device).cuda_stream):
            raise RuntimeError(f"TensorRT could not run {self._graph.name}; the log says why")
        return outputs

    def _output_names(self) -> list[str]:
        return [*(spec.name for spec in self._graph.outputs), *(spec.name + NEXT for spec in self._graph.state)]

    def _output(self, context: tensorrt.IExecutionContext, spec: TensorSpec) -> torch.Tensor:
        """Return memory for an output, whose shape follows from those of the inputs."""
        shape = tuple(context.get_tensor_shape(spec.name))
        if -1 in shape:
            raise ValueError(f"the shape of {spec.name} depends on values, not on shapes: {shape}")
        return torch.empty(shape, dtype=self._dtype(spec), device=self._device)

    def _dtype(self, spec: TensorSpec) -> torch.dtype:
        """Return the type that the engine's file gives a tensor."""
        return DTYPES[self._engine.get_tensor_dtype(spec.name)]


class TensorRtState:
    """Tensors on the device, and as many that the next call writes to, unless it writes over the first."""

    def __init__(self, tensors: list[torch.Tensor], *, in_place: bool) -> None:
        self.tensors = tensors
        self.after = tensors if in_place else [torch.empty_like(tensor) for tensor in tensors]

    def swap(self) -> None:
        """Make what was written last the state."""
        self.tensors, self.after = self.after, self.tensors


class StatefulTensorRtExecutable(TensorRtExecutable):
    """Runs an engine that keeps state, in the type that its file gives it."""

    def __init__(self, engine: tensorrt.ICudaEngine, graph: Graph, device: int, options: TensorRtOptions) -> None:
        super().__init__(engine, graph, device, options)
        self._in_place = options.state_in_place

    def new_state(self, sizes: Mapping[str, int], /) -> TensorRtState:
        """Return zeros on the device."""
        return TensorRtState(self._zeros(sizes), in_place=self._in_place)

    def resize(self, state: TensorRtState, sizes: Mapping[str, int], /) -> TensorRtState:
        """Return larger tensors with the old contents at their beginning."""
        grown = self._zeros(sizes)
        for new, old in zip(grown, state.tensors, strict=True):
            new[tuple(map(slice, old.shape))] = old
        torch.cuda.synchronize(self._device)
        return TensorRtState(grown, in_place=self._in_place)

    def copy_rows(
        self, state: TensorRtState, sources: Sequence[int], targets: Sequence[int], columns: range, /
    ) -> None:
        """Copy these columns of rows."""
        places = torch.tensor([sources, targets], device=self._device)
        for spec, tensor in zip(self._graph.state, state.tensors, strict=True):
            axis = spec.axis_of(LENGTH)
            part = tensor.narrow(axis, columns.start, len(columns))
            part[places[1]] = part[places[0]]
        torch.cuda.synchronize(self._device)  # calls run on another stream

    def __call__(self, inputs: Mapping[str, np.ndarray], state: TensorRtState, /) -> Mapping[str, np.ndarray]:  # type: ignore[override]
        """Compute all outputs, in memory of their own, and update the state."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            placed = self._placed(inputs)
            if self._in_place:
                return self._named(self._call(placed, state.tensors))
            outputs = self._enqueue(self._context, [*placed, *state.tensors], state.after)
            state.swap()
            return self._named(outputs)

    def _zeros(self, sizes: Mapping[str, int]) -> list[torch.Tensor]:
        made = [
            torch.zeros(
                spec.concrete_shape(sizes), dtype=DTYPES[self._engine.get_tensor_dtype(spec.name)], device=self._device
            )
            for spec in self._graph.state
        ]
        torch.cuda.synchronize(self._device)
        return made
