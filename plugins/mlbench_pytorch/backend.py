"""The PyTorch backend: torch modules on a CPU or a GPU, with nothing special about either."""

from __future__ import annotations

from pathlib import Path

from mlbench import Probe
from mlbench.toolkit import TorchBackend, find_versions

DEVICE_FILES = {"cuda": "nvidia[0-9]*", "hip": "kfd"}
"""Device files of GPUs; torch calls both kinds ``cuda``."""


class PyTorch(TorchBackend):
    """Runs torch modules on a CPU or a GPU."""

    name = "pytorch"
    title = "torch modules, eager or torch.compile"
    tuning = Path(__file__).parent / "tuning.toml"

    def probe(self) -> Probe:
        """Look for the distribution and for device files; torch itself stays unloaded."""
        versions = find_versions("torch")
        if not versions:
            return Probe(
                is_available=False, reason="torch is not installed", install="pip install 'mlbench-inference[cpu]'"
            )
        gpus = [name for name, files in DEVICE_FILES.items() if any(Path("/dev").glob(files))]
        return Probe(
            is_available=True,
            devices=("cpu", *gpus),
            precisions=self.precisions,
            versions=versions,
            rank=50,
        )
