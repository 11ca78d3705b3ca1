"""A torch module as a callable of NumPy arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from mlbench.contracts.graph import Graph, TensorSpec
from mlbench.toolkit.batch_sizes import has_batches
from mlbench.toolkit.torch_backend.ahead_of_time import compile_ahead
from mlbench.toolkit.torch_backend.compiling import is_known_by_fingerprint
from mlbench.toolkit.torch_backend.cuda_graphs import CudaRecorder, ReplayedBatches
from mlbench.toolkit.torch_backend.matrix_weights import matrix_weights

if TYPE_CHECKING:
    from mlbench.toolkit.torch_backend.options import TorchOptions

IMAGE_LAYOUTS = {"NCHW": torch.channels_last, "NCDHW": torch.channels_last_3d}


class TorchModule:
    """Runs a module without gradients, in a precision, on a device.

    A lower precision is autocast's choice of operators: matrix products and convolutions run in it, and what needs
    range or digits (softmax, norms, sums) stays fp32. Weights that autocast would convert in each call are converted
    once.
    """

    def __init__(
        self, module: torch.nn.Module, graph: Graph, device: torch.device, dtype: torch.dtype, options: TorchOptions
    ) -> None:
        """Store a module that `place_module` placed for the same graph and options."""
        self._inputs = graph.inputs
        self._outputs = [(spec.name, getattr(torch, spec.dtype)) for spec in graph.outputs]
        self.device = device
        self.dtype = dtype
        self._layouts = _layouts(options)
        self._run = self._compiled(module, graph, options) if options.compile is True else module

    def current_device(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which torch's current GPU is the module's: pinned memory and recordings belong to it."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else contextlib.nullcontext()

    def _compiled(
        self, module: torch.nn.Module, graph: Graph, options: TorchOptions
    ) -> Callable[..., torch.Tensor | Sequence[torch.Tensor]]:
        """Return the module compiled, ahead of time where that is tested."""
        if is_ahead(graph, self.device, self.dtype):
            return compile_ahead(module, graph)
        compiled: Callable[..., torch.Tensor] = torch.compile(module, mode=options.compile_mode)
        return compiled

    def compute(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Return the module's outputs for tensors on its device."""
        with torch.inference_mode(), self._lowered():
            returned = self._run(*tensors)
        return (returned,) if isinstance(returned, torch.Tensor) else returned

    def _lowered(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which torch computes in a lower precision; entering one for fp32 would take time, too."""
        return contextlib.nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device.type, self.dtype)

    def named(self, tensors: Sequence[torch.Tensor]) -> Mapping[str, np.ndarray]:
        """Return the outputs by name, on the CPU; what a module returns beyond them is its state.

        From a GPU they come by way of pinned memory, which torch keeps for later calls, and all are waited for at once.
        """
        outputs = list(zip(self._outputs, tensors, strict=False))
        if self.device.type == "cpu":
            return {name: tensor.to(dtype).numpy() for (name, dtype), tensor in outputs}
        copies = {
            name: torch.empty(tensor.shape, dtype=dtype, pin_memory=True).copy_(tensor, non_blocking=True)
            for (name, dtype), tensor in outputs
        }
        torch.cuda.current_stream(self.device).synchronize()
        return {name: copy.numpy() for name, copy in copies.items()}

    def placed(self, inputs: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
        """Return the inputs, in the order of the module, where and how it wants them."""
        return [self._placed(spec, inputs[spec.name]) for spec in self._inputs]

    def _placed(self, spec: TensorSpec, array: np.ndarray) -> torch.Tensor:
        """Return an input on the device; on the CPU it shares the array's memory if it can."""
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        if self.device.type != "cpu":
            tensor = tensor.pin_memory().to(self.device, non_blocking=True)
        if spec.layout in self._layouts:
            tensor = tensor.contiguous(memory_format=self._layouts[spec.layout])
        return tensor


class TorchExecutable(TorchModule):
    """A module without state as a callable of NumPy arrays."""

    def __init__(
        self, module: torch.nn.Module, graph: Graph, device: torch.device, dtype: torch.dtype, options: TorchOptions
    ) -> None:
        super().__init__(module, graph, device, dtype, options)
        replays = device.type == "cuda" and options.cuda_graphs and not options.compile and has_batches(graph)
        self._replayed = ReplayedBatches(self.compute, CudaRecorder(device)) if replays else None

    def __call__(self, inputs: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Compute all outputs, in the dtypes of their specs, in new memory."""
        with self.current_device():
            placed = self.placed(inputs)
            return self.named(self._replayed(placed) if self._replayed else self.compute(placed))


def is_ahead(graph: Graph, device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether a graph that is compiled is so ahead of time, once for all sizes."""
    return device.type == "cpu" and dtype == torch.float32 and is_known_by_fingerprint(graph)


def place_module(
    module: torch.nn.Module, graph: Graph, device: torch.device, dtype: torch.dtype, options: TorchOptions
) -> torch.nn.Module:
    """Return the module with its weights where and how it runs; once, since recorded calls hold their addresses."""
    if dtype != torch.float32:
        _lower_weights(module, dtype)
    module = module.to(device)
    layouts = _layouts(options)
    for layout in {spec.layout for spec in (*graph.inputs, *graph.state)} & set(layouts):
        module = module.to(memory_format=layouts[layout])
    return module


def _layouts(options: TorchOptions) -> Mapping[str, torch.memory_format]:
    return IMAGE_LAYOUTS if options.channels_last else {}


def _lower_weights(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Convert the weights of matrix products and convolutions where they are, so that no device holds them in fp32."""
    for parameter in matrix_weights(module):
        parameter.data = parameter.data.to(dtype)
