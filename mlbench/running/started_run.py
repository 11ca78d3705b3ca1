"""A run from its start to its record: the facts known before it is measured, and what is stored once it ended."""

from __future__ import annotations

import contextlib
import logging
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from mlbench.contracts.power import NONE
from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import describe_error
from mlbench.execution.plain_values import plain_entries
from mlbench.execution.preload import modules_to_preload
from mlbench.execution.processes.failures import Failure, FailureKind
from mlbench.execution.processes.fork_server import FIRST_MODULE
from mlbench.execution.processes.isolation import tail_of
from mlbench.planning.requests import ResolvedRequest, RunRequest, request_rules
from mlbench.records.environment import Environment, observe_environment
from mlbench.records.job_spec import JobSpec, ModelSpec
from mlbench.records.log_digests import log_digests
from mlbench.records.origin_record import EntryRecord
from mlbench.records.run_outcome import RunOutcome
from mlbench.records.run_record import FailureRecord, NumberFormatRecord, RunRecord, SettingRecord
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.records.store.run_folder import new_run_id
from mlbench.records.work_record import RooflineRecord
from mlbench.roofline.ceilings import Ceilings, load_ceilings
from mlbench.roofline.share import ONCE, share_of
from mlbench.rules.official import WorkloadRules
from mlbench.rules.tiers import run_length
from mlbench.running.lane_log import LanePlace, LaneStay
from mlbench.settings.transforms import choose_transforms
from mlbench.system.documents import open_to_write
from mlbench.system.guards import log_errors
from mlbench.version import __version__

MEASURE = f"{FIRST_MODULE}:measure"
"""The function that a run's process calls; then those that count, score what was timed, and judge its logs."""
COUNT_PROCESSOR_TIME = "mlbench.measurement.processor_time:count_processor_time"
ANSWER_PARTNER = "mlbench.measurement.processor_time:answer_partner"
SCORE_TIMED = "mlbench.measurement.timed_answers:score_timed"
JUDGE = "mlbench.measurement.judge:judge"

_CEILINGS_OF_ALL = "the machine's ceilings are not those of one lane of several"
_METERS_ALL = "meters would count the runs on other lanes, too"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """The facts of a run before it is measured; they are validated by then."""

    request: ResolvedRequest
    scenario: Scenario
    run_id: str
    modules: Sequence[str]
    """Modules of its process that take long to import."""
    modules_of_judge: Sequence[str]
    """The same of the process that judges it, which has no backend: those that the workload names, if the run's process
    begins with them, since a metric may compute the right answers."""
    modules_of_reference: Sequence[str]
    """The same of the process that computes some answers with the fp32 network."""
    origin: str
    """The plugin that brings the backend; empty: it brings the workload, too."""
    created: datetime
    started_ns: int
    environment: Environment
    versions: Mapping[str, str]
    """By the names of the libraries that the backend runs on."""
    ceilings: Ceilings | None
    entry: EntryRecord | None
    number_format: NumberFormatRecord | None
    no_processor_time: str
    """Reason why no processor time is counted; empty if it is."""
    stay: LaneStay | None = None
    """Its time on its lane; None: it is measured by itself."""
    later: Sequence[ResolvedRequest] = ()
    """Runs of the same command that come after it."""

    @classmethod
    def now(
        cls,
        request: ResolvedRequest,
        plugins: Plugins,
        place: LanePlace | None = None,
        later: Sequence[ResolvedRequest] = (),
    ) -> Self:
        """Return the facts of a run that begins now, in the thread of its lane where it has one."""
        created, started_ns = datetime.now(UTC), time.monotonic_ns()  # together: what follows takes seconds at times
        versions = {} if request.has_nodes else dict(plugins.probe(request.backend).versions)
        environment = observe_environment().with_libraries(versions)
        names = (request.workload, request.backend, request.scenario, request.profile, request.precision, request.tier)
        run_id = new_run_id(created, *names)
        workload, backend = plugins.workload(request.workload), plugins.backend(request.backend)
        rules = request_rules(request, plugins)
        scenario = rules.adapt(plugins.scenario(request.scenario))
        own = (
            *(path.partition(":")[0] for path in (MEASURE, COUNT_PROCESSOR_TIME, SCORE_TIMED)),
            "mlbench.discovery.shipped",
        )
        modules = (*own, *modules_to_preload(workload, backend))
        of_reference = (*own, *workload.preload_of_reference, *workload.preload, *workload.preload_always)
        modules_of_reference = tuple(dict.fromkeys(of_reference))
        pairs = zip(modules, modules_of_reference, strict=False)
        shared = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return cls(
            request=request,
            scenario=scenario,
            modules=modules,
            modules_of_judge=max((*own, *workload.preload_always), shared, key=len),
            modules_of_reference=modules_of_reference,
            origin=_origin_apart(request, plugins),
            run_id=run_id,
            created=created,
            started_ns=started_ns,
            environment=environment,
            versions=versions,
            ceilings=None if request.has_nodes or place else load_ceilings(environment),
            entry=_entry_of(request, rules),
            number_format=None if request.network else _number_format(request, plugins),
            no_processor_time=_why_no_processor_time(
                request, run_length(rules, scenario, request.tier)[0], computes=backend.computes_answers
            ),
            stay=LaneStay(place, run_id, request) if place else None,
            later=later,
        )

    @property
    def has_trained_weights(self) -> bool:
        """Return whether accuracy can be claimed."""
        return self.request.weights is Weights.TRAINED

    def job(self, folder: Path) -> JobSpec:
        """Return the request to the run's process."""
        request = self.request
        return replace(
            request.spec(folder),
            wants_accuracy=request.wants_accuracy,
            power=NONE if request.has_nodes or self.stay else request.power,
            is_probe=request.is_probe,
            uncounted=_uncounted(request, self.ceilings, self.stay),
            machine="" if request.has_nodes else _machine_key(self.environment, self.stay),
            network=request.network.spec if request.network else None,
            accuracy_of=str(request.accuracy_of.resolve()) if request.accuracy_of else "",
            audit=request.audit.test if request.audit else "",
            later_models=_models_after(request, self.later),
        )

    def record(self, outcome: RunOutcome | Failure, log: Path, stages_ns: Mapping[str, int]) -> RunRecord:
        """Return the record of the run; if it cannot be made, that of a failure with the reason."""
        try:
            return self._record(self._environment_now(), outcome, stages_ns, log.parent)
        except Exception as error:  # a bug here, or unforeseen values of a plugin
            logger.exception("the record of %s cannot be made", self.run_id)
            _note(log, traceback.format_exc())
            message = f"the run was measured, and its record cannot be made: {describe_error(error)}"
            failure = Failure(kind=FailureKind.EXCEPTION, message=message, stage="record", log_tail=tail_of(log))
            return self._record(self.environment, failure, stages_ns, log.parent)

    def _environment_now(self) -> Environment:
        """Return the machine's state after the run; if it cannot be observed, its state before."""
        with log_errors(logger, "the environment cannot be observed after the run"):
            return observe_environment().with_libraries(self.versions)
        return self.environment

    def _record(
        self, environment: Environment, outcome: RunOutcome | Failure, stages_ns: Mapping[str, int], folder: Path
    ) -> RunRecord:
        fill = partial(self._fill_record, environment, stages_ns=stages_ns)
        if isinstance(outcome, Failure):
            return fill(status="failed", failure=FailureRecord.model_validate(outcome))
        share, reason = self._roofline(outcome)
        reasons = {**outcome.not_measured, **({} if share else {"roofline": reason})}
        if self.stay:
            reasons["roofline"] = _CEILINGS_OF_ALL
            reasons |= {} if self.request.power == NONE else {"energy": _METERS_ALL}
        formats = outcome.number_format or self.number_format
        measured = dict(outcome) | {"not_measured": reasons, "number_format": formats}
        return fill(status="completed", roofline=share, logs=log_digests(folder), **measured)

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
                "number_format": self.number_format,
                "tag": self.request.tag,
                "entry": self.entry,
                "audit": self.request.audit,
                "replay": self.request.replay,
                "repeat": self.request.repeat,
                "beside": self.stay.record() if self.stay else None,
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


def _origin_apart(request: ResolvedRequest, plugins: Plugins) -> str:
    """Return the plugin that brings the backend; empty where the workload is of the same one."""
    origin = plugins.origin(request.backend)
    needed = [plugins.origin(request.workload, "workload"), plugins.origin(request.scenario, "scenario")]
    needed += [plugins.origin(each.name, "transform") for each in choose_transforms(request.transform, plugins)]
    return "" if origin in needed else origin


def _uncounted(request: ResolvedRequest, ceilings: Ceilings | None, stay: LaneStay | None) -> str:
    """Return the reason why the work of graph calls is not counted; empty if it is."""
    if stay:
        return _CEILINGS_OF_ALL
    if request.has_nodes:
        return "other machines did the work"
    return "" if ceilings else ONCE


def _why_no_processor_time(request: ResolvedRequest, least_ms: int, *, computes: bool) -> str:
    if request.is_probe or request.audit:
        return "it is counted in runs for a result"
    if request.has_nodes:
        return "other machines did the work"
    if not computes:
        return "the backend computes nothing"
    asked_ms = request.settings.fill("load", LoadSettings()).min_duration_ms
    if 0 < asked_ms < least_ms:
        return f"a test of {asked_ms} ms is too short for a valid run, and no comparison counts another"
    return "it is counted once an engine, in the run that made the accuracy test" if request.accuracy_of else ""


def _machine_key(environment: Environment, stay: LaneStay | None) -> str:
    lanes = f" {stay.lane.of} lanes" if stay else ""
    return f"{environment.machine} {environment.allowance.model_dump_json()}{lanes}"


def _number_format(request: ResolvedRequest, plugins: Plugins) -> NumberFormatRecord | None:
    found = plugins.probe(request.backend).number_formats.get(request.precision)
    return NumberFormatRecord(stores=found.stores, computes=found.computes) if found else None


def _entry_of(request: ResolvedRequest, rules: WorkloadRules) -> EntryRecord | None:
    """Return the entry that a run is made for, for its record; None where none was asked for."""
    entry = request.entry
    if entry.is_default:
        return None
    return EntryRecord.model_validate(
        {
            "model": entry.model(rules),
            "variant": entry.variant,
            "category": entry.category or "",
            "division": entry.division,
        }
    )


def _models_after(request: ResolvedRequest, later: Sequence[ResolvedRequest]) -> list[ModelSpec]:
    """Return the other mini models that later runs need on the same backend, in their order."""
    alike = [each for each in later if each.backend == request.backend and each.profile is Profile.MINI]
    own, found = _model_of(request), list[ModelSpec]()
    for model in map(_model_of, alike):
        if model not in (own, *found):
            found.append(model)
    return found


def _model_of(request: ResolvedRequest) -> ModelSpec:
    settings = request.settings.plain()
    return ModelSpec(
        workload=request.workload,
        profile=str(request.profile),
        weights=str(request.weights),
        settings={key: value for key, value in settings.items() if key.startswith("workload.")},
        transform=request.transform,
    )


def _storable(value: object) -> Any:
    """Return a setting's value for the record; JSON cannot hold every default of a plugin."""
    kept, reason = plain_entries({"value": value})
    return f"{value} (as text: {reason})" if reason else kept["value"]


def _note(log: Path, text: str) -> None:
    with contextlib.suppress(OSError), open_to_write(log, appends=True) as file:
        file.write(text.encode(errors="backslashreplace"))


def _request_fields(request: RunRequest) -> dict[str, str]:
    names = ("workload", "backend", "scenario", "profile", "tier", "weights", "round", "transform")
    return {name: str(getattr(request, name)) for name in names}
