"""``mlbench check``: test a backend, a workload or a transform with the conformance kit."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.completions import offer_checked
from mlbench.cli.options import Finite, PrecisionName, overrides_option
from mlbench.cli.output import echo, echo_facts, echo_line
from mlbench.contracts.precision import Precision
from mlbench.discovery import Plugins, nearest
from mlbench.errors import UsageError
from mlbench.system.documents import open_to_write
from mlbench.system.folders import make_cache_folder

if TYPE_CHECKING:
    from mlbench.conformance.isolated import CheckRequest, Finding, KitRequest


LONGEST_TIMEOUT_S = 1e6
LONGEST_LOG_NAME = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class KitOptions:
    """Options of a kit's run and of its output."""

    precision: Precision | None
    timeout_s: float
    overrides: dict[str, str]
    log: Path | None
    """None: a file in the cache."""
    write_model: Path | None
    """Folder for the kit's language model; if set, no check runs."""
    only: tuple[str, ...]
    """Names of checks; empty: all."""
    as_json: bool


def kit_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of a kit, as a `KitOptions` argument ``kit``."""

    @click.option(
        "--precision",
        type=PrecisionName(),
        help="Precision to check a backend in. [default: the backend's first]",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=Finite(min=0, max=LONGEST_TIMEOUT_S, min_open=True),
        default=60.0,
        show_default=True,
        help="Timeout in seconds per compiled graph, and for the rest of each check; "
        "for a workload, between two answers.",
    )
    @click.option(
        "--log",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="File for the plugin's output.  [default: in the cache]",
    )
    @overrides_option
    @click.option(
        "--write-model",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Write the kit's language model to this folder, to serve and check it, and run no check.",
    )
    @click.option("--only", metavar="CHECK", multiple=True, help="Run only this check; repeatable.")
    @click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
    @functools.wraps(function)
    def with_kit(**given: Any) -> int:
        kit = KitOptions(**{field.name: given.pop(field.name) for field in dataclasses.fields(KitOptions)})
        return function(kit=kit, **given)

    return with_kit


@click.command("check")
@click.argument("name", shell_complete=offer_checked)
@kit_options
def command(name: str, kit: KitOptions) -> int:
    """Run the kit on NAME, a backend, a workload or a transform (prune-layers:0.25), in a separate process.

    A crash or a hang fails the check it happens in; after three checks in a row with the same hang, the rest is not
    run. The checks show that a backend keeps its contract, or that a workload prepares and answers samples the same way
    each time, and that a backend that computes nothing, damaged weights and wrong answers all miss its target, or that
    a transform keeps shapes, sees calibration data alone, and changes answers only if it says so. A backend may refuse
    a kind of model, such as language models, with a reason: those checks are counted separately.
    Exit status: 0 when all checks passed that the backend does not refuse, 1 when a check failed, 2 when it refuses all
    of them.
    """
    if kit.write_model:
        write_language_model(name, kit.write_model)
        return 0
    return exit_status(print_findings(_request_for(name, kit), name, kit))


def exit_status(findings: Sequence[Finding]) -> int:
    """Return 1 where a check failed, 2 where the backend refused every model, else 0."""
    if any(finding.failed for finding in findings):
        return 1
    is_refused = any(finding.refused for finding in findings)
    return 2 if is_refused and not any(finding.taken for finding in findings) else 0


def write_language_model(name: str, folder: Path) -> None:
    """Write the kit's language model, and print how to serve and check it.

    Raises:
        UsageError: the folder cannot be written, or holds other files.
    """
    from mlbench.conformance.text_model import write_model

    write_model(folder)
    echo_line(
        f"{folder}: a Llama of 0.3 million seeded weights, fp32, as a Hugging Face folder. Serve it, for example with"
    )
    echo_line(f"  transformers serve {folder} --device cpu --dtype float32 --port 8000")
    echo_line("and check that server, for example with")
    echo_line(
        f"  mlbench check {name} --precision fp32 --set backend.url=http://localhost:8000/v1 "
        f"--set backend.model={folder} --set backend.prompt=text"
    )


def _request_for(name: str, kit: KitOptions) -> KitRequest:
    """Return the request to a kit: that of a workload or a transform where only one of these has the name."""
    from mlbench.conformance.transform_kit import TransformCheckRequest
    from mlbench.conformance.workload_kit import WorkloadCheckRequest

    plugins = Plugins.discover()
    is_transform = name.partition(":")[0] in plugins.transforms
    if name in plugins.backends or not (name in plugins.workloads or is_transform):
        return backend_request(name, kit)
    if kit.precision:
        kind = "transform" if is_transform else "workload"
        raise UsageError(f"{name} is a {kind}, and {kind}s are checked in fp32.", hint="Leave out --precision.")
    if is_transform:
        return TransformCheckRequest(transform=name, settings=kit.overrides, timeout_s=kit.timeout_s)
    return WorkloadCheckRequest(workload=name, settings=kit.overrides, timeout_s=kit.timeout_s)


def backend_request(name: str, kit: KitOptions) -> CheckRequest:
    """Return the request to the kit for backends."""
    from mlbench.conformance.isolated import CheckRequest

    return CheckRequest(backend=name, settings=kit.overrides, precision=kit.precision, timeout_s=kit.timeout_s)


def print_findings(request: KitRequest, name: str, kit: KitOptions) -> list[Finding]:
    """Run all or some of the checks; print a line for each and the number that passed, or all as JSON."""
    from mlbench.conformance.isolated import examine

    _require_known(kit.only, [check.__name__ for check in request.checks()])  # also: what is wrong with the request
    kept_in = kit.log or _log_in_cache(name)
    _empty(kept_in)
    findings = examine(request, kept_in, (lambda finding: None) if kit.as_json else _Teller().tell, only=kit.only)
    if kit.as_json:
        listed = [{"check": each.check, **dataclasses.asdict(each), "passed": each.passed} for each in findings]
        echo_facts(listed)
    else:
        for line in (*_shared_causes(findings), *_refusals(findings), *_left_out(findings)):
            echo_line(line)
        echo_line(f"{name}: {summary(findings)}.")
    if any(finding.failed for finding in findings):
        echo_line(f"Output of the plugin: {kept_in}", to_stderr=True)
    return findings


def summary(findings: Sequence[Finding]) -> str:
    """Return how many checks passed, were not run, and were refused by the backend."""
    refused = sum(bool(finding.refused) for finding in findings)
    left_out = sum(finding.is_left_out for finding in findings)
    passed = sum(finding.passed for finding in findings)
    others = (f"{count} {word}" for count, word in ((left_out, "not run"), (refused, "refused")) if count)
    return ", ".join([f"{passed} of {len(findings) - refused} checks passed", *others])


def _refusals(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line with the reason for each kind of model that was refused."""
    for kind in dict.fromkeys(finding.refused for finding in findings if finding.refused):
        refused = [finding for finding in findings if finding.refused == kind]
        first = refused[0]
        yield f"{len(refused)} checks of {kind}, refused: {' '.join([first.reason, first.hint]).rstrip()}"


def _left_out(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the line with the reason why checks were not run."""
    if left_out := [finding for finding in findings if finding.is_left_out]:
        yield f"{len(left_out)} checks {' '.join([left_out[0].reason, left_out[0].hint])}"


def _require_known(only: Sequence[str], checks: Sequence[str]) -> None:
    """Raise `UsageError` for the name of a check that this kit does not have."""
    for name in only:
        if name not in checks:
            raise UsageError(f"unknown check {name!r}.", hint=nearest(name, checks))


def _log_in_cache(name: str) -> Path:
    """Return the file in the cache for a plugin's output; the plugin's name is known to be valid."""
    plain = re.sub(r"[^\w.+-]", "_", name)[:LONGEST_LOG_NAME]
    return make_cache_folder("check") / f"{plain}.log"


def _empty(log: Path) -> None:
    try:
        with open_to_write(log):
            pass
    except OSError as error:
        raise UsageError(
            f"log of the check cannot be written: {log}: {error.strerror}.", hint="Name another file with --log."
        ) from None


class _Teller:
    """Prints a line for each check, and all details for the first failure of each cause."""

    def __init__(self) -> None:
        self._first_of: dict[str, str] = {}

    def tell(self, finding: Finding) -> None:
        """Print a check; if it failed, also the requirement, the finding and the fix.

        The reason for refused checks and those that were not run is printed once, at the end.
        """
        if finding.refused or finding.is_left_out:
            echo_line(f"{'refused' if finding.refused else 'not run'} {finding.check}")
            return
        echo("ok    " if finding.passed else "FAILED", newline=False, color="green" if finding.passed else "red")
        echo_line(f"  {finding.check}  ({finding.seconds:.1f} s)")
        if finding.passed:
            return
        first = self._first_of.setdefault(finding.cause, finding.check)
        if first != finding.check:
            echo_line(f"        {finding.demand} Same cause as {first}.")
            return
        for line in (finding.reason, _origin(finding), finding.hint, finding.demand):
            if line:
                echo(f"        {line}")


def _origin(finding: Finding) -> str:
    return f"Raised in {finding.raised_in}." if finding.raised_in else ""


def _shared_causes(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each cause of several failed checks."""
    failed = [finding for finding in findings if finding.failed]
    for cause, count in Counter(finding.cause for finding in failed).items():
        if count > 1:
            first = next(finding for finding in failed if finding.cause == cause)
            names = ", ".join(finding.check for finding in failed if finding.cause == cause)
            yield f"{' '.join([first.reason, _origin(first)]).rstrip()} {count} checks failed for this reason: {names}."
