"""One run, from request to run folder."""

from __future__ import annotations

import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from mlbench.cluster.demand import NetworkDemand, check_network
from mlbench.contracts.backend import Backend, EnginePlan, Probe
from mlbench.contracts.graph import Precision
from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.contracts.workload import Profile, Weights, Workload
from mlbench.discovery import Plugins
from mlbench.documents import open_to_write
from mlbench.errors import MlbenchError, StorageError, UnavailableError, UsageError, describe_error
from mlbench.execution.failures import Failure, FailureKind
from mlbench.execution.instances.resource_check import check_demand
from mlbench.execution.isolation import ChildFunction, ProcessLimits, call_isolated, tail_of
from mlbench.execution.plain_values import plain_entries
from mlbench.execution.stage_times import WARM_UP, StageTimes
from mlbench.fetching.fetched_settings import fetched_settings
from mlbench.folders import data_folder, results_folder, system_settings_file, tuned_settings_file
from mlbench.records.environment import Environment, observe_environment
from mlbench.records.job_spec import JobSpec
from mlbench.records.run_folder import Claim, RunFolder, new_run_id, remove_abandoned
from mlbench.records.run_outcome import RunOutcome
from mlbench.records.run_record import (
    AuditRecord,
    EntryRecord,
    FailureRecord,
    ReplayRecord,
    RooflineRecord,
    RunRecord,
    SettingRecord,
)
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.roofline.ceilings import Ceilings, load_ceilings
from mlbench.roofline.share import ONCE, share_of
from mlbench.rules.entry_demand import ANY_ENTRY, EntryDemand
from mlbench.rules.official import Category
from mlbench.rules.own import rules_of
from mlbench.rules.tiers import Tier
from mlbench.tuning import RunConditions, Settings, resolve_settings
from mlbench.version import __version__

Listener = Callable[[Mapping[str, Any]], None]

LOG_FILE = "log.txt"
"""In the run folder: the output of the run's process."""

_MEASURE = "mlbench.measurement.measure:measure"

_DRIVEN = {"accuracy", "performance"}
"""The stages of a run in which LoadGen drives: by then the request is known to be valid."""

_STALLS_OF_WARM_UP = 5  # it is several calls of the engine, and shows no progress between them

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to measure. Names are as typed; `resolve` checks them."""

    workload: str
    backend: str
    scenario: str
    profile: Profile = Profile.MINI
    tier: Tier = Tier.SMOKE
    weights: Weights = Weights.TRAINED
    precision: Precision | None = None
    """None: the backend's first."""
    wants_accuracy: bool = True
    entry: EntryDemand = ANY_ENTRY
    """The entry of a submission that it is made for."""
    power: str = AUTO
    """A power meter's name; ``auto``: all that can measure here; ``none``."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the command line, as text, or of a function's caller."""
    suite_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the suite file that the run stands in."""
    results: Path = field(default_factory=results_folder)
    tag: str = ""
    """The set of runs that it belongs to."""
    repeat: int = 1
    """Which of several runs of the same request it is, from 1."""
    network: NetworkDemand | None = None
    """The nodes that answer its samples; None: this machine does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequest(RunRequest):
    """A request that `resolve` looked into: what a run, its claim and its record go by from there on.

    `settings` follow from the fields of the request. A copy may have another ``tag`` or ``repeat``; for other changes
    the request is to be resolved again.
    """

    precision: Precision
    settings: Settings
    accuracy_of: Path | None = None
    """The folder of an earlier run whose accuracy test stands for this run's; None: it makes its own."""
    audit: AuditRecord | None = None
    """The compliance test that the run is; None: a run for a result."""
    replay: ReplayRecord | None = None
    """The run that it replays; None: it replays none."""


@dataclass(frozen=True, slots=True)
class Undefined:
    """A combination of a workload and a scenario that the rules do not define."""

    workload: str
    scenario: str
    category: Category | None = None
    """The category of the entries that were asked for."""

    def __str__(self) -> str:
        where = f" for {self.category} systems" if self.category else ""
        return f"{self.workload} {self.scenario}: the rules do not define this combination{where}."


def combinations(  # noqa: PLR0913 - the axes of a matrix
    plugins: Plugins,
    workloads: Sequence[str],
    backends: Sequence[str],
    scenarios: Sequence[str],
    precision: Precision | None = None,
    *,
    entry: EntryDemand = ANY_ENTRY,
    **common: Any,
) -> Iterator[RunRequest | Undefined]:
    """Yield a request for each combination, workload by workload.

    An empty axis stands for all workloads that have the entry, the best backend that offers the precision, or all
    scenarios that the rules define or its category requires: first the one that sends all samples at once, in which an
    accuracy test that others may share takes least.

    Raises:
        MlbenchError: a name is unknown, its plugin broken, or a workload that is named has no such entry.
    """
    named = [plugins.scenario(name) for name in scenarios]
    every = sorted(plugins.scenarios.values(), key=lambda each: not each.sends_all_at_once)
    default = [name for name, each in plugins.workloads.items() if each.is_default]
    for workload in [plugins.workload(name) for name in workloads or _having(entry, default, plugins)]:
        settled = entry.settle(workload.name, rules_of(workload))
        defined = entry.scenarios(rules_of(workload))
        for backend in [plugins.backend(name) for name in backends] or [plugins.best_backend(precision)]:
            for scenario in named or every:
                if scenario.loadgen in defined and (named or scenario.name in defined):
                    yield RunRequest(
                        workload=workload.name,
                        backend=backend.name,
                        scenario=scenario.name,
                        precision=precision,
                        entry=settled,
                        **common,
                    )
                elif named:
                    yield Undefined(workload.name, scenario.name, entry.category)


def _having(entry: EntryDemand, names: Sequence[str], plugins: Plugins) -> Sequence[str]:
    """Return the workloads that have an entry.

    Raises:
        UsageError: none has it, or there can be none.
    """
    found, errors = [], []
    for name in names:
        try:
            entry.settle(name, rules_of(plugins.workload(name)))
        except UsageError as error:
            errors.append(error)
        else:
            found.append(name)
    if errors and not found:
        raise errors[0]
    return found


def settings_of(request: RunRequest, plugins: Plugins) -> Settings:
    """Return every setting of a run, and where it comes from.

    Raises:
        MlbenchError: a name is unknown, or a setting unknown or of the wrong type.
    """
    backend = plugins.backend(request.backend)
    run_conditions = RunConditions(
        workload=plugins.workload(request.workload),
        backend=backend,
        scenario=plugins.scenario(request.scenario),
        profile=request.profile,
        tier=request.tier,
        precision=request.precision or _probe(request, plugins).precisions[0],
    )
    reads_fetched = request.profile is Profile.FULL and request.weights is Weights.TRAINED
    return resolve_settings(
        run_conditions,
        tuned_file=tuned_settings_file(),
        system_file=system_settings_file(),
        data=fetched_settings(run_conditions.workload, data_folder()) if reads_fetched else {},
        suite=request.suite_settings,
        command_line=request.overrides,
    )


def resolve(request: RunRequest, plugins: Plugins) -> ResolvedRequest:
    """Return a request with its precision and settings, after checking it before anything runs.

    Raises:
        MlbenchError: a name or setting is wrong, the backend cannot run here, or does not offer the precision.
    """
    return resolve_with(settings_of(request, plugins), request, plugins)


def resolve_with(settings: Settings, request: RunRequest, plugins: Plugins) -> ResolvedRequest:
    """Return a request with its precision and these settings; raises as `resolve`."""
    scenario, plan = plugins.scenario(request.scenario), settings.fill("execution", EnginePlan())
    check_demand(plan, scenario)
    check_network(request.network, request.entry, scenario, plan)
    if request.network:
        request.network.check_served(request.workload, request.backend, request.profile, request.weights)
    if request.power not in (AUTO, NONE) and request.network:
        raise UsageError(f"power meter {request.power} cannot measure other machines.", hint="Use --power none.")
    if request.power not in (AUTO, NONE) and (reason := plugins.meter_fault(request.power)):
        raise UnavailableError(f"power meter {request.power} cannot measure here: {reason}.")
    probe = _probe(request, plugins)
    if not probe.is_available:
        raise UnavailableError(f"backend {request.backend} cannot run here: {probe.reason}.", hint=probe.install)
    if request.precision and request.precision not in probe.precisions:
        offered = ", ".join(probe.precisions)
        raise UsageError(
            f"{request.backend} does not offer precision {request.precision}.", hint=f"It offers: {offered}."
        )
    return ResolvedRequest(
        **{each.name: getattr(request, each.name) for each in fields(RunRequest)}
        | {
            "precision": request.precision or probe.precisions[0],
            "settings": settings,
            "entry": request.entry.settle(request.workload, rules_of(plugins.workload(request.workload))),
        }
    )


def _probe(request: RunRequest, plugins: Plugins) -> Probe:
    """Return what the backend offers where it will run."""
    return request.network.probe if request.network else plugins.probe(request.backend)


def run_benchmark(
    request: ResolvedRequest,
    plugins: Plugins,
    on_progress: Listener = lambda progress: None,
    claim: Claim | None = None,
) -> RunRecord:
    """Measure one workload on one backend under one scenario, and store the run folder.

    A run that crashes, hangs or runs out of memory is stored too, as a failure of that kind, and so is one that was
    measured and whose record cannot be made. ``on_progress`` is given what the run is doing: a mapping with its
    ``stage`` and, while LoadGen drives, the number of samples ``answered``.

    Raises:
        MlbenchError: the request cannot be carried out (a corrupt file, a missing library); nothing is stored.
        UnstoredRunError: it was measured, and cannot be stored; the error has the record.
        TakenError: another process has the claim.
    """
    begun = _Begun.now(request, plugins)
    remove_abandoned(request.results)
    with RunFolder.create(request.results, begun.run_id, claim) as folder:
        stages = StageTimes()
        outcome = _measure(begun, folder, on_progress, stages)
        record = begun.record(outcome, folder.path / LOG_FILE, stages.end())
        try:
            stored = folder.store(record)
        except StorageError as error:
            raise UnstoredRunError(error.message, hint=error.hint, record=record) from None
    plugins.notify_stored(stored)
    return record


class UnstoredRunError(StorageError):
    """A run was measured, and cannot be stored."""

    def __init__(self, message: str, *, hint: str, record: RunRecord) -> None:
        super().__init__(message, hint=hint)
        self.record = record


def _measure(begun: _Begun, folder: RunFolder, on_progress: Listener, stages: StageTimes) -> RunOutcome | Failure:
    """Carry out the run in a separate process.

    Raises:
        UsageError, PluginError: the request cannot be carried out; nothing was measured.
    """
    log = folder.path / LOG_FILE

    def show(progress: Mapping[str, Any]) -> None:
        stages.enter(progress["stage"])
        try:
            on_progress(progress)
        except Exception:  # a closed terminal must not fail the run
            logger.debug("progress cannot be shown", exc_info=True)

    try:
        return call_isolated(
            ChildFunction(_MEASURE, RunOutcome, begun.modules),
            begun.job(folder.path),
            log,
            _limits(begun.request.settings),
            show,
        )
    except MlbenchError as error:
        if error.exit_code == UsageError.exit_code and _DRIVEN.isdisjoint(stages.names):  # the request itself is wrong
            raise
        return Failure(kind=FailureKind.EXCEPTION, message=str(error), stage=stages.last, log_tail=tail_of(log))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """The facts of a run before it is measured; they are validated by then."""

    request: ResolvedRequest
    scenario: Scenario
    run_id: str
    modules: Sequence[str]
    """What its process loads that takes long to import."""
    created: datetime
    started_ns: int
    environment: Environment
    ceilings: Ceilings | None
    entry: EntryRecord | None

    @classmethod
    def now(cls, request: ResolvedRequest, plugins: Plugins) -> Self:
        """Return the facts of a run that begins now."""
        created, environment = datetime.now(UTC), observe_environment()
        names = (request.workload, request.backend, request.scenario, request.profile, request.precision, request.tier)
        return cls(
            request=request,
            scenario=plugins.scenario(request.scenario),
            modules=modules_of(plugins.workload(request.workload), plugins.backend(request.backend)),
            run_id=new_run_id(created, *names),
            created=created,
            started_ns=time.monotonic_ns(),
            environment=environment,
            ceilings=None if request.network else load_ceilings(environment),
            entry=_entry_of(request, plugins.workload(request.workload)),
        )

    def job(self, folder: Path) -> JobSpec:
        """Return the request to the run's process."""
        request = self.request
        return JobSpec(
            **_request_fields(request),
            precision=request.precision,
            settings=request.settings.plain() | (request.replay.chosen if request.replay else {}),
            folder=str(folder.resolve()),
            wants_accuracy=request.wants_accuracy,
            power=NONE if request.network else request.power,
            uncounted=_uncounted(request, self.ceilings),
            machine="" if request.network else _machine_key(self.environment),
            network=request.network.spec if request.network else None,
            accuracy_of=str(request.accuracy_of.resolve()) if request.accuracy_of else "",
            variant=request.entry.variant,
            division=request.entry.division,
            audit=request.audit.test if request.audit else "",
        )

    def record(self, outcome: RunOutcome | Failure, log: Path, stages_ns: Mapping[str, int]) -> RunRecord:
        """Return the record of the run; if it cannot be made, that of a failure with the reason."""
        try:
            return self._record(self._environment_now(), outcome, stages_ns)
        except Exception as error:  # a bug here, or unforeseen values of a plugin
            logger.exception("the record of %s cannot be made", self.run_id)
            _note(log, traceback.format_exc())
            message = f"the run was measured, and its record cannot be made: {describe_error(error)}"
            failure = Failure(kind=FailureKind.EXCEPTION, message=message, stage="record", log_tail=tail_of(log))
            return self._record(self.environment, failure, stages_ns)

    def _environment_now(self) -> Environment:
        """Return the machine's state after the run; if it cannot be observed, its state before."""
        try:
            return observe_environment()
        except Exception:  # it reads files of kernel and drivers
            logger.exception("the environment cannot be observed after the run")
            return self.environment

    def _record(
        self, environment: Environment, outcome: RunOutcome | Failure, stages_ns: Mapping[str, int]
    ) -> RunRecord:
        fill = partial(self._fill_record, environment, stages_ns=stages_ns)
        if isinstance(outcome, Failure):
            return fill(status="failed", failure=FailureRecord.model_validate(outcome))
        share, reason = self._roofline(outcome)
        measured = dict(outcome) | {"not_measured": {**outcome.not_measured, **({} if share else {"roofline": reason})}}
        return fill(status="completed", roofline=share, **measured)

    def _fill_record(self, environment: Environment, **ended: Any) -> RunRecord:
        """Return the record, with the fields of it that depend on how the run ended."""
        plain = {key: _storable(value) for key, value in self.request.settings.plain().items()}
        layers = {key: setting.layer for key, setting in self.request.settings.by_key.items()}
        record = RunRecord.model_validate(
            {
                "run_id": self.run_id,
                "created": self.created,
                "duration_ns": time.monotonic_ns() - self.started_ns,
                "mlbench_version": __version__,
                "precision": self.request.precision,
                "tag": self.request.tag,
                "entry": self.entry,
                "audit": self.request.audit,
                "replay": self.request.replay,
                "repeat": self.request.repeat,
                "settings": {key: SettingRecord(value=value, layer=layers[key]) for key, value in plain.items()},
                "environment": environment,
                "scenario_facts": ScenarioRecord.of(self.scenario),
                **_request_fields(self.request),
                **ended,
            }
        )
        record.text()  # find out now if it cannot be written
        return record

    def _roofline(self, outcome: RunOutcome) -> tuple[RooflineRecord | None, str]:
        """Return the share of the machine's peak rates, or why it is unknown."""
        try:
            instances = outcome.engine.instances or 1
            return share_of(outcome.work, self.request.precision, outcome.runtime, self.ceilings, instances)
        except Exception as error:  # a backend's facts may be anything
            return None, describe_error(error)


def _uncounted(request: ResolvedRequest, ceilings: Ceilings | None) -> str:
    """Return why the work of graph calls is not counted; empty: it is."""
    if request.network:
        return "other machines did the work"
    return "" if ceilings else ONCE


def _machine_key(environment: Environment) -> str:
    return f"{environment.machine} {environment.allowance.model_dump_json()}"


def _entry_of(request: ResolvedRequest, workload: Workload) -> EntryRecord | None:
    """Return the entry that a run is made for, for its record; None where none was asked for."""
    entry = request.entry
    if entry.is_default:
        return None
    return EntryRecord.model_validate(
        {
            "model": entry.model(rules_of(workload)),
            "variant": entry.variant,
            "category": entry.category or "",
            "division": entry.division,
        }
    )


def modules_of(workload: Workload, backend: Backend) -> Sequence[str]:
    """Return the modules that a run's process is forked with."""
    of_networks = workload.preload if backend.preload else ()
    return (_MEASURE.partition(":")[0], *backend.preload, *of_networks)


def _storable(value: object) -> Any:
    """Return a setting's value for the record; JSON cannot hold every default of a plugin."""
    kept, reason = plain_entries({"value": value})
    return f"{value} (as text: {reason})" if reason else kept["value"]


def _note(log: Path, text: str) -> None:
    with contextlib.suppress(OSError), open_to_write(log, appends=True) as file:
        file.write(text.encode(errors="backslashreplace"))


def _request_fields(request: RunRequest) -> dict[str, str]:
    names = ("workload", "backend", "scenario", "profile", "tier", "weights")
    return {name: str(getattr(request, name)) for name in names}


def _limits(settings: Settings) -> ProcessLimits:
    load = settings.fill("load", LoadSettings())
    return ProcessLimits.for_run(
        load.stage_timeout_s,
        memory_gib=load.memory_limit_gib,
        idle_timeouts_s={WARM_UP: _STALLS_OF_WARM_UP * load.stall_timeout_s},
    )
