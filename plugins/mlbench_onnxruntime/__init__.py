"""A backend that runs each graph in an ONNX Runtime session."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the ONNX Runtime backend."""
    from mlbench_onnxruntime.backend import OnnxRuntime

    return [OnnxRuntime()]
