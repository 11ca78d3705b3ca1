"""A backend that measures a server that speaks OpenAI's protocols, and a workload for a server's own model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlbench import Backend, Scenario, Workload, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the endpoint backend."""
    from mlbench_endpoint.backend import Endpoint

    return [Endpoint()]


@hookimpl(tryfirst=True)  # hooks are collected from the last one on: it is listed behind the official ones
def mlbench_workloads() -> list[Workload]:
    """Return the workload of a server's own model."""
    from mlbench_endpoint.loads.workload import PromptsWorkload, VectorsWorkload

    return [PromptsWorkload(), VectorsWorkload()]


@hookimpl
def mlbench_scenarios() -> list[Scenario]:
    """Return the scenarios that load a server."""
    from mlbench_endpoint.loads.scenarios import CONCURRENCY, RATE, SCHEDULE

    return [RATE, CONCURRENCY, SCHEDULE]


@hookimpl
def mlbench_commands() -> list[click.Command]:
    """Return the command that measures a server under several loads, and the one that serves words to try it."""
    from mlbench_endpoint.mock_server.command import mock_server
    from mlbench_endpoint.sweep.command import bench_endpoint

    return [bench_endpoint, mock_server]
