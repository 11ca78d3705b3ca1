"""A backend that runs each graph as the torch module it is, eagerly or through torch.compile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from mlbench.contracts.backend import GraphBackend
from mlbench.contracts.graph import Executable, Graph
from mlbench.contracts.precision import Precision
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.workload import Memory
from mlbench.errors import GraphError, UnavailableError, UsageError, first_line
from mlbench.system.processor import usable_threads
from mlbench.toolkit.batch_sizes import has_batches
from mlbench.toolkit.cores import cores_each
from mlbench.toolkit.shared_while_used import SharedWhileUsed
from mlbench.toolkit.torch_backend.compiling import why_eager, why_slower
from mlbench.toolkit.torch_backend.options import TorchOptions

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_MODULES: WeakKeyDictionary[Graph, SharedWhileUsed[torch.nn.Module]] = WeakKeyDictionary()
"""By graph, then by device, precision and layout: whatever a module is changed for."""


class TorchBackend(GraphBackend):
    """Runs torch modules on a device of torch's. A subclass brings `name`, `title`, options and `probe`."""

    options: TorchOptions = TorchOptions()
    preload = ("torch",)
    precisions = (Precision.FP32, Precision.BF16, Precision.FP16)
    """Its precisions, for `Probe.precisions`."""

    def __init__(self) -> None:
        self._why_eager: dict[str, str] = {}
        """Reasons why graphs were not compiled where that was left open, by graph. Shared with copies of other
        options."""

    def for_workers(self, workers: int) -> Self:
        """Give each worker its part of the cores."""
        return self.with_options(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def instance(self, number: int, of: int) -> Self:
        """Take the next GPU, unless ``device`` has a number; without GPUs return the backend itself."""
        import torch

        options = self.options
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if options.device not in ("auto", "cuda") or not gpus:
            return self
        if of > gpus:
            raise UsageError(
                f"execution.instances is {of}; GPUs that torch {torch.__version__} can use here: {gpus}.",
                hint=f"Expected 1 to {gpus}, or a backend.device that all instances share: cuda:0.",
            )
        return self.with_options(replace(options, device=f"cuda:{number}"))

    def device(self) -> torch.device:
        """Return the device to run on.

        Raises:
            UsageError: torch cannot use it here.
        """
        return usable_device(self.options.device)

    def memory(self) -> Memory:
        """Return where its device has its memory; raises as `device`."""
        return Memory.HOST if self.device().type == "cpu" else Memory.DEVICE

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return the module, on its device and in its precision, as a callable of NumPy arrays."""
        import torch

        options = self.options
        dtypes = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
        if precision not in dtypes:
            raise UsageError(f"{self.name} does not offer {precision}.", hint=f"Choose from {', '.join(dtypes)}.")
        device = self.device()
        torch.set_num_threads(options.threads or min(torch.get_num_threads(), usable_threads()))
        # fp32 without TF32; in the older spelling, as the newer one breaks torch.export in the same process
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False  # the default but for TORCH_ALLOW_TF32_CUBLAS_OVERRIDE
        if device.type == "cuda" and not has_batches(graph):  # cuDNN would plan attention anew for each size
            torch.backends.cuda.enable_cudnn_sdp(False)
        build = graph.module if precision is Precision.FP32 else partial(graph.module_at, precision)
        dtype = dtypes[precision]
        if options.compile != "auto":
            return _executable(build, graph, device, dtype, options)
        module = build()
        self._why_eager[graph.name] = reason = why_eager(graph, module, device, precision)
        if reason:
            return _executable(lambda: module, graph, device, dtype, replace(options, compile=False))
        return self._compile_if_faster(graph, module, device, dtype)

    def _compile_if_faster(
        self, graph: Graph, module: torch.nn.Module, device: torch.device, dtype: torch.dtype
    ) -> Executable | Any:
        """Return a graph compiled ahead of time; eager where that fails or was measured to be no faster."""
        options = self.options
        # the compiler may change the module it gets
        eager = partial(_executable, graph.module, graph, device, dtype, replace(options, compile=False))
        try:
            compiled = _executable(lambda: module, graph, device, dtype, replace(options, compile=True))
            conditions = {"channels_last": options.channels_last}
            self._why_eager[graph.name] = "" if graph.state else why_slower(graph, conditions, eager, compiled)
        except (GraphError, UnavailableError) as error:
            self._why_eager[graph.name] = error.message
            logger.warning("%s runs eagerly: %s", graph.name, error.message)
        return eager() if self._why_eager[graph.name] else compiled

    def observe(self) -> RuntimeFacts:
        """Return torch's setup on this machine."""
        import torch

        device, eager = self.device(), {name: reason for name, reason in self._why_eager.items() if reason}
        return RuntimeFacts(
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            compiled=", ".join(name for name, reason in self._why_eager.items() if not reason) or None,
            device_peak_memory_bytes=torch.cuda.max_memory_reserved(device) if device.type == "cuda" else None,
            extra={
                "threads": torch.get_num_threads(),
                "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                "mkldnn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
                "torch": torch.__version__,
                **({"eager": eager} if eager else {}),
            },
        )


def _executable(
    build: Callable[[], torch.nn.Module],
    graph: Graph,
    device: torch.device,
    dtype: torch.dtype,
    options: TorchOptions,
) -> Executable | Any:
    """Return a module as a callable of NumPy arrays; unless it is compiled, all that run it so share it.

    Raises:
        GraphError: it cannot be loaded or compiled.
    """
    from mlbench.toolkit.torch_backend.executable import TorchExecutable, is_ahead, place_module
    from mlbench.toolkit.torch_backend.stateful import StatefulTorchExecutable

    def placed() -> torch.nn.Module:
        return place_module(build(), graph, device, dtype, options)

    if options.compile and is_ahead(graph, device, dtype):  # its compiler chooses the layout of images itself
        options = replace(options, channels_last=False)
    kind = StatefulTorchExecutable if graph.state else TorchExecutable
    try:
        if options.compile or not isinstance(graph, Hashable):
            module = placed()
        else:
            shared = _MODULES.setdefault(graph, SharedWhileUsed())
            module = shared.get((device, dtype, options.channels_last), placed)
        return kind(module, graph, device, dtype, options)
    except RuntimeError as error:
        raise GraphError(f"graph {graph.name} does not load on {device}: {first_line(error)}.") from error


def usable_device(name: str) -> torch.device:
    """Return the device of this name.

    Raises:
        UsageError: torch has no such device here.
    """
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    known = ["cpu", *(f"cuda:{number}" for number in range(gpus))]
    wanted = {"auto": known[min(1, gpus)], "cuda": "cuda:0"}.get(name, name)
    if wanted not in known:
        raise UsageError(
            f"backend.device is {name!r}, which torch {torch.__version__} cannot use here.",
            hint=f"Choose auto or one of {', '.join(known)}.",
        )
    return torch.device(wanted)
