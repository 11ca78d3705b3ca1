"""``mlbench plugin``: start a backend of your own, and check that it fulfils its contract."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.check import check_options, print_findings
from mlbench.cli.output import echo_line

if TYPE_CHECKING:
    from mlbench.conformance.isolated import CheckRequest, Finding
    from mlbench.contracts.backend import Backend


@click.group("plugin")
def command() -> None:
    """Start a backend of your own, and check that it fulfils its contract."""


@command.command("new", short_help="Write the package of a new backend.")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="Where the package's folder is made.  [default: here]",
)
def new(name: str, into: Path) -> None:
    """Write a package with the backend NAME: it installs, passes the conformance kit, and is ready for your runtime."""
    from mlbench.discovery import Plugins
    from mlbench.errors import UsageError
    from mlbench.scaffold.backend_package import new_backend

    if name in (plugins := Plugins.discover()).backends:
        raise UsageError(f"{plugins.origin(name)} brings a backend {name!r}.", hint="Choose another name.")
    folder = new_backend(name, into)
    echo_line(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}. Next:")
    echo_line(f"  pip install -e {folder if folder.is_absolute() else f'./{folder}'}")
    echo_line(f"  mlbench plugin check {name}")


@command.command("check", short_help="Check a backend's plugin, and write a badge.")
@check_options
@click.option(
    "--badge",
    "badge_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a badge that shows the result.",
)
def check(request: CheckRequest, log: Path | None, badge_file: Path | None) -> int:
    """Check the entry point, the options and the conformance of BACKEND; --badge writes a badge with the result."""
    from mlbench.discovery import Plugins
    from mlbench.discovery.guard import call_plugin
    from mlbench.records.whole_file import write_whole
    from mlbench.reports.badge import badge

    plugins = Plugins.discover()
    backend = request.subject().backend
    echo_line(f"entry point  {plugins.origin(backend.name)}")
    echo_line(f"options      {call_plugin(lambda: _options(backend), 'an option')}")
    findings = print_findings(request, log)
    if badge_file:
        drawn = badge("mlbench conformance", _message(request, findings), is_good=_all_passed(findings))
        write_whole(badge_file, drawn)
        echo_line(f"badge: {badge_file}")
    return 0 if _all_passed(findings) else 1


def _options(backend: Backend) -> str:
    """Return each option with its value."""
    if not dataclasses.is_dataclass(backend.options):
        return f"not a dataclass: {type(backend.options).__name__}"
    values = (
        f"backend.{field.name}={getattr(backend.options, field.name)}" for field in dataclasses.fields(backend.options)
    )
    return ", ".join(values) or "none"


def _message(request: CheckRequest, findings: list[Finding]) -> str:
    passed = sum(finding.passed for finding in findings)
    return f"{passed} of {len(findings)}, {request.subject().precision}"


def _all_passed(findings: list[Finding]) -> bool:
    return all(finding.passed for finding in findings)
