"""A backend that runs each graph as the torch module it is, eagerly or through torch.compile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from mlbench.contracts.backend import GraphBackend
from mlbench.contracts.graph import Executable, Graph, Precision
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.errors import GraphError, UsageError, first_line
from mlbench.toolkit.cores import cores_each
from mlbench.toolkit.torch_backend.options import TorchOptions

if TYPE_CHECKING:
    import torch


class TorchBackend(GraphBackend):
    """Runs torch modules on a device of torch's. A subclass brings `name`, `title`, options and `probe`."""

    options: TorchOptions = TorchOptions()
    precisions = (Precision.FP32, Precision.BF16, Precision.FP16)
    """What it computes in, for `Probe.precisions`."""

    def for_workers(self, workers: int) -> Self:
        """Give each worker its part of the cores."""
        return self.with_options(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def instance(self, number: int, of: int) -> Self:
        """Take a GPU of its own, unless ``device`` names one by its number; without GPUs the backend as it is."""
        import torch

        options = self.options
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if options.device not in ("auto", "cuda") or not gpus:
            return self
        if of > gpus:
            raise UsageError(
                f"execution.instances is {of}, and torch {torch.__version__} can use {gpus} GPUs here.",
                hint=f"Expected 1 to {gpus}, or a backend.device that all instances share: cuda:0.",
            )
        return self.with_options(replace(options, device=f"cuda:{number}"))

    def device(self) -> torch.device:
        """Return the device to run on.

        Raises:
            UsageError: torch cannot use it here.
        """
        return usable_device(self.options.device)

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return the module, on its device and in its precision, as a callable of NumPy arrays."""
        import torch

        from mlbench.toolkit.torch_backend.executable import TorchExecutable
        from mlbench.toolkit.torch_backend.stateful import StatefulTorchExecutable

        options = self.options
        dtypes = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
        if precision not in dtypes:
            raise UsageError(f"{self.name} does not offer {precision}.", hint=f"Choose from {', '.join(dtypes)}.")
        device = self.device()
        if options.threads:
            torch.set_num_threads(options.threads)
        # fp32 without TF32; in the older spelling, as the newer one breaks torch.export in the same process
        torch.backends.cudnn.allow_tf32 = False
        module = graph.module() if precision is Precision.FP32 else graph.module_at(precision)
        try:
            kind = StatefulTorchExecutable if graph.state else TorchExecutable
            return kind(module, graph, device, dtypes[precision], options)
        except RuntimeError as error:
            reason = first_line(error)
            raise GraphError(f"graph {graph.name} does not load on {device}: {reason}.") from error

    def observe(self) -> RuntimeFacts:
        """Return how torch was set up on this machine."""
        import torch

        device = self.device()
        return RuntimeFacts(
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            extra={
                "threads": torch.get_num_threads(),
                "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                "mkldnn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
                "torch": torch.__version__,
            },
        )


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
