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
    from mlbench.contracts.sensor import Sensor
    from mlbench.contracts.transform import Transform
    from mlbench.contracts.workload import Workload

OWN_COMMANDS = (
    *("run", "rounds", "rules", "list", "show", "table", "verify"),
    *("compare", "regress", "bisect", "baseline", "history", "cost", "report", "site", "audit", "replay"),
    *("fetch", "query", "export", "import", "submit", "system", "published"),
    *("demo", "tune", "curve", "precisions", "serve", "settings", "doctor", "check", "roofline", "plugin"),
    *("completion", "onnx"),
)
"""Names of mlbench's own commands, which a plugin's command cannot have."""

MODEL_FILE = "workload.model"
"""The setting that names a user's own model, of which the run's workload is made."""

hookspec = pluggy.HookspecMarker("mlbench")
hookimpl = pluggy.HookimplMarker("mlbench")


@hookspec
def mlbench_backends() -> Sequence[Backend]:  # type: ignore[empty-body]
    """Return the backends this plugin brings."""


@hookspec
def mlbench_workloads() -> Sequence[Workload]:  # type: ignore[empty-body]
    """Return the workloads this plugin brings."""


@hookspec
def mlbench_model_workload(file: Path, name: str) -> Workload | None:
    """Return a workload of this name that measures a user's own model; None for a form that the plugin does not know.

    It goes by the file's name alone: the path may come from a stranger's record, and is opened only when a run begins.
    The file is the setting `MODEL_FILE`, so the workload's options have a field ``model``.

    Args:
        file: the model's file, or its folder.
        name: the user's for it.
    """


@hookspec
def mlbench_scenarios() -> Sequence[Scenario]:  # type: ignore[empty-body]
    """Return the scenarios this plugin brings."""


@hookspec
def mlbench_transforms() -> Sequence[Transform]:  # type: ignore[empty-body]
    """Return the transforms this plugin brings."""


@hookspec
def mlbench_power_meters() -> Sequence[PowerMeter]:  # type: ignore[empty-body]
    """Return the power meters this plugin brings."""


@hookspec
def mlbench_sensors() -> Sequence[Sensor]:  # type: ignore[empty-body]
    """Return the sensors this plugin brings."""


@hookspec
def mlbench_commands() -> Sequence[click.Command]:  # type: ignore[empty-body]
    """Return commands to add to ``mlbench``."""


@hookspec
def mlbench_run_begins(folder: Path, tag: str) -> None:
    """Handle the begin of a run, before anything of it is measured.

    Args:
        folder: where it will be stored; its name is the run's id. It is not there yet.
        tag: of the set of runs that it belongs to; often empty.
    """


@hookspec
def mlbench_run_stored(folder: Path) -> None:
    """Handle a stored run: its folder is complete. Imported runs, which never began, are stored as well."""


@hookspec
def mlbench_run_ended(folder: Path, is_stored: bool) -> None:
    """Handle the end of a run that began, however it ended; after ``mlbench_run_stored`` where it is stored."""


@hookspec
def mlbench_suite_begins(name: str, results: Path, count: int) -> None:
    """Handle the begin of a suite, before its first run.

    Args:
        name: of the suite, which is the tag of its runs.
        results: the folder of run folders.
        count: how many runs are to be made; those that are stored already are not.
    """


@hookspec
def mlbench_suite_ended(name: str, results: Path) -> None:
    """Handle the end of a suite that began, also where it was interrupted."""
