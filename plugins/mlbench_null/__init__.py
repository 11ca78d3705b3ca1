"""A backend that computes nothing: it shows mlbench's own overhead."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the null backend."""
    from mlbench_null.backend import Null

    return [Null()]
