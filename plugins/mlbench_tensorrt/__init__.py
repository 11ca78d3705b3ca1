"""A backend that builds TensorRT engines from ONNX graphs."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the TensorRT backend."""
    from mlbench_tensorrt.backend import TensorRt

    return [TensorRt()]
