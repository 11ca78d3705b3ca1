"""A backend that compiles graphs with OpenVINO."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the OpenVINO backend."""
    from mlbench_openvino.backend import OpenVino

    return [OpenVino()]
