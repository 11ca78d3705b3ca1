"""``mlbench plugin``: start a backend or a workload of your own, and check that a backend fulfils its contract."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.check import (
    KitOptions,
    backend_request,
    exit_status,
    kit_options,
    print_findings,
    summary,
    write_language_model,
)
from mlbench.cli.completions import offer_backends
from mlbench.cli.output import echo_line
from mlbench.discovery import Plugins
from mlbench.discovery.guard import call_plugin
from mlbench.errors import UsageError
from mlbench.records.store.whole_file import write_whole

if TYPE_CHECKING:
    from mlbench.conformance.isolated import CheckRequest, Finding
    from mlbench.contracts.backend import Backend


@click.group("plugin")
def command() -> None:
    """Start a backend or a workload of your own, and check that a backend fulfils its contract."""


@command.command("new", short_help="Write the package of a new backend or workload.")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Folder in which to create the package.  [default: here]",
)
@click.option(
    "--engine", "has_engine", is_flag=True, help="Write a backend whose runtime serves language models itself."
)
@click.option("--workload", "is_workload", is_flag=True, help="Write a workload instead of a backend.")
@click.option(
    "--from",
    "model",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --workload: your model, .onnx or .pt2, which the package gets a copy of.",
)
@click.option("--shape", "shapes", multiple=True, metavar="INPUT=SHAPE", help="With --from: an input's shape.")
@click.option("--dim", "dims", multiple=True, metavar="DIM=SIZE", help="With --from: an open size.")
def new(
    name: str,
    into: Path,
    has_engine: bool,
    is_workload: bool,
    model: Path | None,
    shapes: tuple[str, ...],
    dims: tuple[str, ...],
) -> None:
    """Write a package with the backend NAME, or with --workload the workload NAME.

    It installs, runs and passes its kit, and is ready for your runtime, or for your data and model. A backend compiles
    graphs; with --engine it has its own engine, for language models. With --from the workload is a model that you have.
    """
    from mlbench.graph_export.model_files import files_of_model
    from mlbench.scaffold.package import write_package
    from mlbench.scaffold.packages import BACKEND, ENGINE, USER_MODEL, WORKLOAD

    if has_engine and is_workload:
        raise UsageError("--engine is for backends only.", hint="Leave out --engine, or --workload.")
    if (model or shapes or dims) and not (is_workload and model):
        raise UsageError(
            "--from is given without --workload." if model else "--shape or --dim is given without --from.",
            hint="A package for a model of your own: --workload --from model.onnx.",
        )
    plugins = Plugins.discover()
    known = plugins.workloads if is_workload else plugins.backends
    if name in known:
        origin = plugins.origin(name, "workload" if is_workload else "backend")
        kind = "workload" if is_workload else "backend"
        raise UsageError(f"{origin} already has a {kind} {name!r}.", hint="Choose another name.")
    if model:
        words = {"file": model.name, "shapes": ",".join(shapes), "dims": ",".join(dims)}
        folder = write_package(USER_MODEL, name, into, words=words, model=files_of_model(model))
    else:
        folder = write_package(WORKLOAD if is_workload else ENGINE if has_engine else BACKEND, name, into)
    echo_line(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}. Next:")
    echo_line(f"  pip install -e {folder if folder.is_absolute() else f'./{folder}'}")
    first = "run" if model else "check" if is_workload else "plugin check"
    echo_line(f"  mlbench {first} {name}")


@command.command("check", short_help="Check a backend's plugin, and write a badge.")
@click.argument("backend", shell_complete=offer_backends)
@kit_options
@click.option(
    "--badge",
    "badge_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a badge that shows the result.",
)
def check(backend: str, badge_file: Path | None, kit: KitOptions) -> int:
    """Check the entry point, the options and the conformance of BACKEND; --badge writes a badge with the result."""
    from mlbench.reports.badge import badge

    if kit.write_model:
        write_language_model(backend, kit.write_model)
        return 0
    if kit.only and badge_file:
        raise UsageError("a badge needs all checks.", hint="Leave out --only, or --badge.")
    plugins = Plugins.discover()
    request = backend_request(backend, kit)
    found = request.subject().backend
    echo_line(f"entry point  {plugins.origin(found.name)}", to_stderr=kit.as_json)
    echo_line(f"options      {call_plugin(lambda: _options(found), 'an option')}", to_stderr=kit.as_json)
    findings = print_findings(request, found.name, kit)
    if badge_file:
        drawn = badge("mlbench conformance", _message(request, findings), is_good=exit_status(findings) == 0)
        write_whole(badge_file, drawn)
        echo_line(f"badge: {badge_file}", to_stderr=kit.as_json)
    return exit_status(findings)


def _options(backend: Backend) -> str:
    """Return each option with its value."""
    if not dataclasses.is_dataclass(backend.options):
        return f"not a dataclass: {type(backend.options).__name__}"
    values = (
        f"backend.{field.name}={getattr(backend.options, field.name)}" for field in dataclasses.fields(backend.options)
    )
    return ", ".join(values) or "none"


def _message(request: CheckRequest, findings: list[Finding]) -> str:
    return f"{summary(findings).replace(' checks passed', '')}, {request.subject().precision}"
