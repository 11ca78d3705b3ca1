"""A backend that measures a server: anything that speaks OpenAI's completions protocol."""

from __future__ import annotations

from mlbench import Backend, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the endpoint backend."""
    from mlbench_endpoint.backend import Endpoint

    return [Endpoint()]
