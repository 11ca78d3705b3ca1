"""A backend that runs each graph as the torch module it is."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the PyTorch backend."""
    from mlbench_pytorch.backend import PyTorch

    return [PyTorch()]
