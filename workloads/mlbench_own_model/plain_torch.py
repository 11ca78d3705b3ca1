"""torch as it is: the reference of exported programs."""

from __future__ import annotations

from mlbench import Probe
from mlbench.toolkit import TorchBackend


class PlainTorch(TorchBackend):
    """Runs modules eagerly, in fp32."""

    name = "plain-torch"

    def probe(self) -> Probe:
        """Say that it runs where torch does."""
        return Probe(is_available=True)
