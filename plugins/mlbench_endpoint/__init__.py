"""A backend that measures a server that speaks OpenAI's protocols, and a workload for a server's own model."""

from __future__ import annotations

import click

from mlbench import Backend, Scenario, Workload, hookimpl


@hookimpl
def mlbench_backends() -> list[Backend]:
    """Return the endpoint backend."""
    from mlbench_endpoint.backend import Endpoint

    return [Endpoint()]


@hookimpl(tryfirst=True)  # hooks are collected from the last one on: it is listed behind the official ones
def mlbench_workloads() -> list[Workload]:
    """Return the workload of a server's own model."""
    from mlbench_endpoint.workload import PromptsWorkload

    return [PromptsWorkload()]


@hookimpl
def mlbench_scenarios() -> list[Scenario]:
    """Return the scenarios that load a server."""
    from mlbench_endpoint.scenarios import CONCURRENCY, RATE

    return [RATE, CONCURRENCY]


@hookimpl
def mlbench_commands() -> list[click.Command]:
    """Return the command that measures a server under several loads."""
    from mlbench_endpoint.command import bench_endpoint

    return [bench_endpoint]
