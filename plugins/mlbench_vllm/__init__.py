"""A backend that generates with vLLM, in this process's own engine."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the vLLM backend."""
    from mlbench_vllm.backend import Vllm

    return [Vllm()]
