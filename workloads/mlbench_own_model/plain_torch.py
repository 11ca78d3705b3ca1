"""torch as it is: the reference of exported programs."""

from __future__ import annotations

from mlbench import Executable, Graph, Precision, Probe
from mlbench.toolkit import TorchBackend


def compile_in_torch(graph: Graph) -> Executable:
    """Return a call of the graph's module, eagerly, in fp32."""
    found: Executable = _PlainTorch().compile(graph, Precision.FP32)
    return found


class _PlainTorch(TorchBackend):
    name = "plain-torch"

    def probe(self) -> Probe:
        """Say that it runs where torch does."""
        return Probe(is_available=True)
