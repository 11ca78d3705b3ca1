"""A job that makes the runs of a suite, for any scheduler."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlbench.contracts.backend import EnginePlan
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.planning.lane_demand import check_one_lane
from mlbench.planning.requests import settings_of
from mlbench.planning.suite import read_suite, unresolved_requests_of
from mlbench.records.environment import observe_environment
from mlbench.system.documents import read_text
from mlbench.system.folders import folder_variables

Scheduler = Literal["slurm", "kubernetes"]

_LONGEST_NAME = 40
_SUITE_BYTES = 1 << 20
"""The limit of a Kubernetes ConfigMap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Accelerators, as a scheduler counts them."""

    count: int
    kind: str = ""
    """The scheduler's name of them: ``gpu:h100``, ``nvidia.com/mig-1g.10gb``; empty: its usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemand:
    """Resources requested for a job; None: as much as this machine has."""

    scheduler: Scheduler
    cpus: int | None = None
    """Hardware threads."""
    memory_gib: int | None = None
    devices: Devices | None = None
    image: str = ""
    """The container's image."""
    claim: str = ""
    """The PersistentVolumeClaim that keeps results, data, cache and settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteJob:
    """A job that makes the runs of a suite on one node."""

    name: str
    """Letters, digits and hyphens, in lower case: a DNS label."""
    words: tuple[str, ...]
    """The command line after the program; all paths that mlbench gives are absolute."""
    suite: str
    """The suite's name."""
    suite_file: Path
    suite_text: str
    results: Path
    environment: Mapping[str, str]
    """The folders of this command, by their variables."""
    is_continued: bool
    """Whether starting it again makes only what is missing or failed."""
    cpus: int
    memory_gib: int
    devices: Devices


def plan_job(  # noqa: PLR0913 - the options of `mlbench run --suite`
    suite_file: Path,
    demand: JobDemand,
    plugins: Plugins,
    *,
    results: Path,
    overrides: Mapping[str, str],
    fresh: bool,
    parallel: int = 1,
) -> SuiteJob:
    """Return the job of a suite. Names and settings are checked; whether backends can run is for the job's machine.

    Raises:
        MlbenchError: the suite, or something that it names, is wrong, or a path cannot be written on one line.
        UsageError: a run has more instances, or the job more lanes, than it has hardware threads; lanes are more than
            its accelerators, or a run cannot be made on one.
    """
    suite_file, results = suite_file.absolute(), results.absolute()
    suite, text = read_suite(suite_file), read_text(suite_file, what="suite file")
    if len(text.encode()) > _SUITE_BYTES:
        raise UsageError(f"{suite_file} has {len(text.encode())} bytes.", hint=f"At most {_SUITE_BYTES} fit in a job.")
    here = observe_environment()
    memory_bytes = here.allowance.memory_bytes or here.memory_bytes or 0
    cpus = demand.cpus or here.allowance.threads or 1
    devices = demand.devices or Devices(count=len(here.accelerators))
    _check_lanes(parallel, cpus, devices)
    for request in unresolved_requests_of(suite, plugins, results=results, overrides=overrides):
        plan = settings_of(request, plugins).fill("execution", EnginePlan())
        instances = plan.instances
        if parallel > 1:
            check_one_lane(request, plan)
        if instances != "auto" and instances > cpus:
            raise UsageError(
                f"execution.instances is {instances} with {request.workload}, and the job has {cpus} threads.",
                hint="Give it more with --cpus.",
            )
    settings = (word for pair in overrides.items() for word in ("--set", "=".join(pair)))
    lanes = ["--parallel", str(parallel)] if parallel > 1 else []
    words = (
        *("run", "--suite", str(suite_file), "--results", str(results)),
        *(["--fresh"] if fresh else []),
        *lanes,
        *settings,
    )
    environment = folder_variables()
    _check_words((*words, *environment.values(), str(Path.cwd())))
    return SuiteJob(
        name=f"mlbench-{_label(suite.name)}",
        words=words,
        suite=suite.name,
        suite_file=suite_file,
        suite_text=text,
        results=results,
        environment=environment,
        is_continued=not fresh,
        cpus=cpus,
        memory_gib=demand.memory_gib or max(1, memory_bytes >> 30),
        devices=devices,
    )


def _check_lanes(parallel: int, cpus: int, devices: Devices) -> None:
    """Check that a job has a device for each lane, where it has any, and a hardware thread."""
    if parallel > 1 and 0 < devices.count < parallel:
        raise UsageError(f"--parallel is {parallel}, and the job has {devices.count} devices.", hint="See --devices.")
    if parallel > cpus:
        raise UsageError(f"--parallel is {parallel}, and the job has {cpus} threads.", hint="Give it more with --cpus.")


def _label(name: str) -> str:
    """Return a DNS label for a name, another one for each name."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    if label == name:
        return label
    return f"{label}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".strip("-")


def _check_words(words: Iterable[str]) -> None:
    """Raise `UsageError` for a word that cannot be printed as it is."""
    for word in words:
        if not word.isprintable():
            raise UsageError(f"{word!r} has characters that are not printable.", hint="A job needs names without.")
