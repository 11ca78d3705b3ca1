"""``mlbench check``: whether a backend fulfils its contract."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_backends
from mlbench.cli.options import Finite, overrides_option
from mlbench.cli.output import echo, echo_json, echo_line
from mlbench.contracts.graph import Precision
from mlbench.errors import UsageError
from mlbench.folders import make_cache_folder

if TYPE_CHECKING:
    from mlbench.conformance.isolated import CheckRequest, Finding


LONGEST_TIMEOUT_S = 1e6
LONGEST_LOG_NAME = 50


def check_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the argument and options that say what to check, as a ``request``."""

    @click.argument("backend", shell_complete=offer_backends)
    @click.option(
        "--precision",
        type=click.Choice([str(precision) for precision in Precision]),
        help="Precision to check. [default: the backend's first]",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=Finite(min=0, max=LONGEST_TIMEOUT_S, min_open=True),
        default=60.0,
        show_default=True,
        help="Seconds for each graph that a check compiles, and for the rest of it.",
    )
    @overrides_option
    @functools.wraps(function)
    def with_request(
        backend: str, precision: str | None, timeout_s: float, overrides: dict[str, str], **others: Any
    ) -> int:
        from mlbench.conformance.isolated import CheckRequest

        request = CheckRequest(
            backend=backend,
            settings=overrides,
            precision=Precision(precision) if precision else None,
            timeout_s=timeout_s,
        )
        return function(request, **others)

    return with_request


@click.command("check")
@check_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(request: CheckRequest, as_json: bool) -> int:
    """Run the conformance kit on BACKEND, in a process of its own: a crash or a hang fails the check it happens in."""
    findings = print_findings(request, is_quiet=as_json)
    if as_json:
        echo_json(json.dumps([{**dataclasses.asdict(each), "passed": each.passed} for each in findings], indent=2))
    return 0 if all(finding.passed for finding in findings) else 1


def print_findings(request: CheckRequest, *, is_quiet: bool = False) -> list[Finding]:
    """Run the checks; unless quiet, print a line as each one ends, and finally how many passed."""
    from mlbench.conformance.isolated import examine

    log = _empty_log(request.subject().backend.name)
    findings = examine(request, log, (lambda finding: None) if is_quiet else _tell)
    passed = sum(finding.passed for finding in findings)
    if not is_quiet:
        echo_line(f"{request.backend}: {passed} of {len(findings)} checks passed.")
    if passed < len(findings):
        echo_line(f"What the backend printed: {log}", to_stderr=True)
    return findings


def _empty_log(backend: str) -> Path:
    """Return the file for what a backend prints, in the cache: only names of known backends come here."""
    plain = re.sub(r"[^\w.+-]", "_", backend)[:LONGEST_LOG_NAME]
    log = make_cache_folder("check") / f"{plain}.log"
    try:
        log.write_bytes(b"")
    except OSError as error:
        raise UsageError(
            f"log of the check cannot be written: {log}: {error.strerror}.", hint="Set MLBENCH_CACHE."
        ) from None
    return log


def _tell(finding: Finding) -> None:
    """Print a line for a check; if it failed, also what is required, what was found, and what to do."""
    if finding.passed:
        echo("ok    ", newline=False, color="green")
        echo_line(f"  {finding.check}  ({finding.seconds:.1f} s)")
        return
    echo("FAILED", newline=False, color="red")
    echo_line(f"  {finding.check}  ({finding.seconds:.1f} s)")
    for line in (finding.demand, finding.reason, finding.hint):
        if line:
            echo(f"        {line}")
