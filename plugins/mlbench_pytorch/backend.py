"""The PyTorch backend: runs each graph as the torch module it is, eagerly or through torch.compile."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlbench import Executable, Graph, GraphBackend, GraphError, Precision, Probe, UsageError
from mlbench.toolkit import cores_each

if TYPE_CHECKING:
    import torch

DEVICE_FILES = {"cuda": "nvidia[0-9]*", "hip": "kfd"}
"""What /dev shows where there is a GPU; torch calls both ``cuda``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PyTorchOptions:
    """What can be set on the PyTorch backend."""

    device: str = "auto"
    """``cpu``, ``cuda`` or ``cuda:1`` (AMD's too); ``auto``: the first GPU that torch can use, else the CPU."""
    threads: int = 0
    """Per operator on the CPU; 0: one per physical core, shared out among `EnginePlan.workers`."""
    compile: bool = False
    """Pass the module through torch.compile, which compiles again for new shapes; needs a C++ compiler on a CPU."""
    compile_mode: str = "default"
    """torch.compile's ``mode``: ``default``, ``reduce-overhead``, ``max-autotune``, ..."""
    channels_last: bool = True
    """Keep images with their channels innermost, where an input's layout says that it holds images."""
    cuda_graphs: bool = True
    """On a GPU, record calls of graphs with state (a language model's decode steps), and replay them."""


class PyTorch(GraphBackend):
    """Runs torch modules on a CPU or a GPU."""

    name = "pytorch"
    title = "torch modules, eager or torch.compile"
    options = PyTorchOptions()

    def probe(self) -> Probe:
        """Look for the distribution and for device files; torch itself stays unloaded."""
        try:
            version = importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            return Probe(is_available=False, reason="torch is not installed", install="pip install 'mlbench[cpu]'")
        gpus = [name for name, files in DEVICE_FILES.items() if any(Path("/dev").glob(files))]
        return Probe(
            is_available=True,
            devices=("cpu", *gpus),
            precisions=(Precision.FP32, Precision.BF16, Precision.FP16),
            versions={"torch": version},
            rank=50,
        )

    def shared(self, workers: int) -> Self:
        """Give each worker its part of the cores."""
        return self.configured(replace(self.options, threads=self.options.threads or cores_each(workers)))

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return the module, on its device and in its precision, as a callable of NumPy arrays."""
        import torch

        from mlbench_pytorch.executable import TorchExecutable
        from mlbench_pytorch.stateful import StatefulTorchExecutable

        options = self.options
        dtypes = {Precision.FP32: torch.float32, Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
        if precision not in dtypes:
            raise UsageError(f"pytorch does not offer {precision}.", hint=f"Choose from {', '.join(dtypes)}.")
        device = usable_device(options.device)
        if options.threads:
            torch.set_num_threads(options.threads)
        # fp32 without TF32; in the older spelling, as the newer one breaks torch.export in the same process
        torch.backends.cudnn.allow_tf32 = False
        module = graph.module()
        try:
            kind = StatefulTorchExecutable if graph.state else TorchExecutable
            return kind(module, graph, device, dtypes[precision], options)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise GraphError(f"graph {graph.name} does not load on {device}: {reason}.") from error

    def observe(self) -> Mapping[str, Any]:
        """Return how torch was set up on this machine."""
        import torch

        device = usable_device(self.options.device)
        return {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "mkldnn": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
            "torch": torch.__version__,
        }


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
