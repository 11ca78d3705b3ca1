"""The hooks that mlbench calls on every plugin.

An entry point in group ``mlbench`` names a module that implements some of them. A hook returns at once and imports no
runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from mlbench.contracts.backend import Backend
    from mlbench.contracts.power import PowerMeter
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.workload import Workload

OWN_COMMANDS = (
    *("run", "list", "show", "table", "verify"),
    *("compare", "regress", "bisect", "baseline", "history", "cost", "report", "site", "audit", "replay"),
    *("fetch", "query", "export", "import", "submit", "system", "published"),
    *("demo", "tune", "curve", "serve", "settings", "doctor", "check", "roofline", "plugin", "completion", "onnx"),
)
"""Names of mlbench's own commands, which a plugin's command cannot have."""

hookspec = pluggy.HookspecMarker("mlbench")
hookimpl = pluggy.HookimplMarker("mlbench")


@hookspec
def mlbench_backends() -> Sequence[Backend]:  # type: ignore[empty-body]
    """Return the backends this plugin brings."""


@hookspec
def mlbench_workloads() -> Sequence[Workload]:  # type: ignore[empty-body]
    """Return the workloads this plugin brings."""


@hookspec
def mlbench_scenarios() -> Sequence[Scenario]:  # type: ignore[empty-body]
    """Return the scenarios this plugin brings."""


@hookspec
def mlbench_power_meters() -> Sequence[PowerMeter]:  # type: ignore[empty-body]
    """Return the power meters this plugin brings."""


@hookspec
def mlbench_commands() -> Sequence[click.Command]:  # type: ignore[empty-body]
    """Return commands to add to ``mlbench``."""


@hookspec
def mlbench_run_stored(folder: Path) -> None:
    """Handle a stored run: its folder is complete."""
