"""The ROCm backend: what differs between AMD's GPUs and NVIDIA's in torch. The rest is `mlbench.toolkit`'s."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlbench import Executable, Graph, Precision, Probe, RuntimeFacts, UsageError
from mlbench.toolkit import TorchBackend, find_versions
from mlbench_rocm.devices import architectures, hip_version, obstacles
from mlbench_rocm.options import RocmOptions

if TYPE_CHECKING:
    import torch

INSTALL = "install torch for ROCm, with the command from https://pytorch.org/get-started/locally"


class Rocm(TorchBackend):
    """Runs torch modules on an AMD GPU."""

    name = "rocm"
    title = "torch modules on AMD GPUs"
    options: RocmOptions = RocmOptions()

    def probe(self) -> Probe:
        """Look for the driver's files and torch's build; torch itself stays unloaded."""
        reasons, version = list(obstacles()), find_versions("torch").get("torch", "")
        if not version:
            reasons.append("torch is not installed")
        hip = hip_version()
        if version and not hip:
            reasons.append(f"torch {version} is not built for ROCm")
        if reasons:
            return Probe(is_available=False, reason=" and ".join(reasons), install=INSTALL)
        return Probe(
            is_available=True,
            devices=tuple(architectures()),
            precisions=self.precisions,
            versions={"torch": version, "hip": hip},
            rank=70,
        )

    def device(self) -> torch.device:
        """Return the AMD GPU to run on: the CPU only where the options say ``cpu``.

        Raises:
            UsageError: torch has no such GPU, or was built for another maker's.
        """
        import torch

        found = super().device()
        if self.options.device != "cpu" and (found.type != "cuda" or torch.version.hip is None):
            raise UsageError(
                f"backend.device is {self.options.device!r}, and torch {torch.__version__} can use no AMD GPU here.",
                hint="See `mlbench list` for what is missing.",
            )
        return found

    def compile(self, graph: Graph, precision: Precision) -> Executable | Any:
        """Return the module as a callable, after choosing the libraries that it is computed with."""
        if self.device().type == "cuda":
            self.choose_libraries()
        return super().compile(graph, precision)

    def choose_libraries(self) -> None:
        """Tell torch which libraries to prefer; one that lacks an operation leaves it to another."""
        import torch

        options = self.options
        if options.matrix_library != "default":
            torch.backends.cuda.preferred_blas_library(options.matrix_library)
        if options.attention_library != "default":
            torch.backends.cuda.preferred_rocm_fa_library(options.attention_library)
        if options.tune:
            torch.cuda.tunable.set_filename(os.devnull)  # else what it found is left in the current folder
            torch.cuda.tunable.enable(True)

    def observe(self) -> RuntimeFacts:
        """Return torch's setup and choices."""
        import torch

        found = super().observe()
        chosen = {
            "hip": torch.version.hip,
            "architectures": architectures(),
            "matrix_library": str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2],
            "attention_library": str(torch.backends.cuda.preferred_rocm_fa_library()).rpartition(".")[2],
            "tune": torch.cuda.tunable.is_enabled(),
        }
        return replace(found, extra={**found.extra, **chosen})
