"""One run, from request to run folder: a table of contents."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from mlbench import __version__
from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.graph import Precision
from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import UnavailableError, UsageError
from mlbench.execution.instances.demand import check_demand
from mlbench.execution.isolation import Failure, Limits, call_isolated
from mlbench.folders import results_folder, system_settings_file
from mlbench.records.environment import observe_environment
from mlbench.records.run_folder import RunFolder, new_run_id
from mlbench.records.run_record import FailureRecord, RunRecord, SettingRecord
from mlbench.roofline.ceilings import Ceilings, known_ceilings
from mlbench.roofline.share import ONCE, share_of
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import Tier
from mlbench.tuning import Circumstances, Settings, layered

Listener = Callable[[Mapping[str, Any]], None]

LOG_FILE = "log.txt"
"""In the run folder: all that the run's process printed."""

_MEMORY_SHARE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to measure. Names are as typed; `resolved` checks them."""

    workload: str
    backend: str
    scenario: str
    profile: Profile = Profile.MINI
    tier: Tier = Tier.SMOKE
    weights: Weights = Weights.TRAINED
    precision: Precision | None = None
    """None: the backend's first."""
    wants_accuracy: bool = True
    power: str = AUTO
    """A power meter's name; ``auto``: all that can measure here; ``none``."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings of the command line."""
    suite_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the suite file that the run stands in."""
    results: Path = field(default_factory=results_folder)
    tag: str = ""
    """The set of runs that it belongs to."""
    repeat: int = 1
    """Which of several runs of the same request it is, from 1."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """A combination of a workload and a scenario that the rules do not define."""

    workload: str
    scenario: str


def combinations(
    plugins: Plugins,
    workloads: Sequence[str],
    backends: Sequence[str],
    scenarios: Sequence[str],
    precision: Precision | None = None,
    **common: Any,
) -> Iterator[RunRequest | Undefined]:
    """Yield a request for each combination, workload by workload.

    An empty axis stands for all workloads, the best backend that offers the precision, or all scenarios that the rules
    define.

    Raises:
        MlbenchError: a name is unknown, or its plugin broken.
    """
    named = [plugins.scenario(name) for name in scenarios]
    for workload in [plugins.workload(name) for name in workloads or plugins.workloads]:
        defined = official_rules(workload.rules).scenarios
        for backend in [plugins.backend(name) for name in backends] or [plugins.best_backend(precision)]:
            for scenario in named or plugins.scenarios.values():
                if scenario.loadgen in defined:
                    yield RunRequest(
                        workload=workload.name,
                        backend=backend.name,
                        scenario=scenario.name,
                        precision=precision,
                        **common,
                    )
                elif named:
                    yield Undefined(workload.name, scenario.name)


def settings_of(request: RunRequest, plugins: Plugins) -> Settings:
    """Return every setting of a run, and where it comes from.

    Raises:
        MlbenchError: a name is unknown, or a setting unknown or of the wrong type.
    """
    backend = plugins.backend(request.backend)
    circumstances = Circumstances(
        workload=plugins.workload(request.workload),
        backend=backend,
        scenario=plugins.scenario(request.scenario),
        profile=request.profile,
        tier=request.tier,
        precision=request.precision or backend.probe().precisions[0],
    )
    return layered(
        circumstances,
        system_file=system_settings_file(),
        suite=request.suite_settings,
        command_line=request.overrides,
    )


def check(request: RunRequest, plugins: Plugins) -> Precision:
    """Return the precision of a run, after looking for all that can be wrong with a request before anything runs.

    Raises:
        MlbenchError: a name or setting is wrong, the backend cannot run here, or does not offer the precision.
    """
    settings, scenario = settings_of(request, plugins), plugins.scenario(request.scenario)
    check_demand(settings.fill("execution", EnginePlan()), scenario.loadgen)
    if request.power not in (AUTO, NONE) and (reason := plugins.power_meter(request.power).probe()):
        raise UnavailableError(f"power meter {request.power} cannot measure here: {reason}.")
    probe = plugins.backend(request.backend).probe()
    if not probe.is_available:
        raise UnavailableError(f"backend {request.backend} cannot run here: {probe.reason}.", hint=probe.install)
    if request.precision and request.precision not in probe.precisions:
        offered = ", ".join(probe.precisions)
        raise UsageError(
            f"{request.backend} does not offer precision {request.precision}.", hint=f"It offers: {offered}."
        )
    return request.precision or probe.precisions[0]


def run_benchmark(request: RunRequest, plugins: Plugins, on_progress: Listener = lambda progress: None) -> RunRecord:
    """Measure one workload on one backend under one scenario, and store the run folder.

    A run that crashes, hangs or runs out of memory is stored too, as a failure of that kind. ``on_progress`` hears what
    the run is doing: a mapping with its ``stage`` and, while LoadGen drives, the number of samples ``answered``.

    Raises:
        MlbenchError: the request cannot be carried out (a corrupt file, a missing library); nothing is stored.
    """
    precision, settings = check(request, plugins), settings_of(request, plugins)
    created, started_ns = datetime.now(UTC), time.monotonic_ns()
    names = (request.workload, request.backend, request.scenario, request.profile, precision, request.tier)
    ceilings = known_ceilings(observe_environment())
    with RunFolder.create(request.results, new_run_id(created, *names)) as folder:
        outcome = call_isolated(
            "mlbench.measurement.measure:measure",
            {**_payload(request, settings, precision, folder.path), "uncounted": "" if ceilings else ONCE},
            folder.path / LOG_FILE,
            _limits(settings),
            on_progress,
        )
        environment, fields = observe_environment(), _outcome_fields(outcome)
        record = RunRecord(
            run_id=folder.run_id,
            created=created,
            duration_ns=time.monotonic_ns() - started_ns,
            mlbench_version=__version__,
            precision=precision,
            tag=request.tag,
            repeat=request.repeat,
            settings={
                key: SettingRecord(value=value, layer=settings.by_key[key].layer)
                for key, value in settings.plain().items()
            },
            environment=environment,
            **_asked(request),
            **fields | _roofline_fields(fields, precision, ceilings),
        )
        stored = folder.store(record)
    plugins.tell_stored(stored)
    return record


def _asked(request: RunRequest) -> dict[str, Any]:
    names = ("workload", "backend", "scenario", "profile", "tier", "weights")
    return {name: str(getattr(request, name)) for name in names}


def _payload(request: RunRequest, settings: Settings, precision: Precision, folder: Path) -> Mapping[str, Any]:
    return {
        **_asked(request),
        "precision": precision,
        "wants_accuracy": request.wants_accuracy,
        "power": request.power,
        "settings": settings.plain(),
        "folder": str(folder.resolve()),
    }


def _limits(settings: Settings) -> Limits:
    load = settings.fill("load", LoadSettings())
    return Limits(
        stage_timeout_s=load.stage_timeout_s,
        memory_bytes=int(load.memory_limit_gib * 2**30 or _MEMORY_SHARE * psutil.virtual_memory().available),
    )


def _outcome_fields(outcome: Mapping[str, Any] | Failure) -> dict[str, Any]:
    """Return the fields of the record that the child's end decides."""
    if isinstance(outcome, Failure):
        return {"status": "failed", "failure": FailureRecord.model_validate(outcome)}
    return {"status": "completed", **outcome}


def _roofline_fields(fields: Mapping[str, Any], precision: Precision, ceilings: Ceilings | None) -> dict[str, Any]:
    """Return the share of the machine's ceilings, where they are known, and what is not measured."""
    if fields["status"] == "failed":
        return {}
    instances = fields["engine"].get("instances", 1)
    share, reason = share_of(fields["work"], precision, fields["runtime"], ceilings, instances)
    missing = {} if share else {"roofline": reason}
    return {"roofline": share, "not_measured": {**fields["not_measured"], **missing}}
