"""Plans `mlbench replay`: a repeat of a stored run, and the differences of machine and software since then."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlbench.comparison.comparability import Difference, differences, further_differences
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.planning.repeats import (
    NOT_TRUSTED,
    chosen_by_measuring,
    request_of,
    settings_as_stored,
    workload_of_record,
)
from mlbench.planning.requests import ResolvedRequest, resolve_with
from mlbench.records.environment import observe_environment
from mlbench.records.origin_record import ReplayRecord
from mlbench.records.run_record import RunRecord, read
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.records.store.run_folder import find_run
from mlbench.rules.official import round_named
from mlbench.rules.own import rules_of
from mlbench.settings.layers import OwnWord, Setting
from mlbench.version import __version__

TAG = "replay"
"""The tag of all replays: that of the run is for the set that it was made in."""

_LOADGEN = "mlcommons-loadgen"
_CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """A stored run, and what repeats it."""

    record: RunRecord
    name: str
    """By which commands find it, also when there are more runs."""
    request: ResolvedRequest
    replay: ReplayRecord
    machine: tuple[Difference, ...]
    """Facts that comparisons demand to be equal and that differ here: hardware, clocks, LoadGen."""
    software: tuple[Difference, ...]
    """Versions and other facts that may differ, and do."""

    @property
    def across(self) -> tuple[str, ...]:
        """Return the facts that the new run is compared across."""
        return tuple(each.fact for each in self.machine)


def plan_replay(results: Path, name: str, plugins: Plugins, word: OwnWord = NOT_TRUSTED) -> ReplayPlan:
    """Return the plan that repeats a run from its record.

    Args:
        results: the results folder, which the new run goes into.
        name: the run, as every command takes it.
        plugins: must hold the run's.
        word: what the user says, since the record may be a stranger's.

    Raises:
        UsageError: no such run, or one that cannot be repeated here, or sets what only the user may set.
        MlbenchError: a plugin of the run is missing or broken here, or its backend cannot run here.
    """
    folder = find_run(results, name)
    record = read(folder)
    _check_kind(record)
    request = dataclasses.replace(request_of(record), results=results, tag=TAG)
    settings = settings_as_stored(record, plugins, word)
    here = _as_made_here(record, plugins)
    _check_traffic(record, here)
    _check_devices(record, here)
    chosen = chosen_by_measuring(record)
    in_force = settings_as_stored(record, plugins, word, {key: Setting(value, TAG) for key, value in chosen.items()})
    replay = ReplayRecord.model_validate({"of": record.run_id, "chosen": chosen})
    return ReplayPlan(
        record=record,
        name=folder.name if folder.parent == results else str(folder),
        request=dataclasses.replace(resolve_with(in_force, request, plugins), settings=settings, replay=replay),
        replay=replay,
        machine=differences(record, here),
        software=further_differences(record, here),
    )


def _check_kind(record: RunRecord) -> None:
    if record.imported:
        raise UsageError(f"run {record.run_id} was imported: its engine is not here.", hint="See `mlbench show`.")
    if record.audit:
        raise UsageError(
            f"run {record.run_id} is {record.audit.test} of {record.audit.of}.", hint="`mlbench audit` repeats it."
        )


def _as_made_here(record: RunRecord, plugins: Plugins) -> RunRecord:
    """Return the record as it would be of a run made here and now, in all that is known before it."""
    environment = observe_environment().with_libraries(plugins.probe(record.backend).versions)
    found, then = (each.libraries.get(_LOADGEN, "absent") for each in (environment, record.environment))
    rules = rules_of(workload_of_record(record, plugins), round_named(record.round))
    return record.model_copy(
        update={
            "environment": environment,
            "mlbench_version": __version__,
            "scenario_facts": ScenarioRecord.of(rules.adapt(plugins.scenario(record.scenario))),
            "loadgen_version": record.loadgen_version if found == then else found,
        }
    )


def _check_traffic(record: RunRecord, here: RunRecord) -> None:
    if str(record.scenario_facts) != str(here.scenario_facts):
        raise UsageError(
            f"run {record.run_id} was driven by {record.scenario_facts}; {record.scenario} is "
            f"{here.scenario_facts} now.",
            hint="Install the scenario's plugin as it was.",
        )
    now = {name: getattr(round_named(record.round).seeds.normal, name) for name in ("qsl", "sample_index", "schedule")}
    if record.seeds and record.seeds.model_dump() != now:
        raise UsageError(
            f"run {record.run_id} has other seeds than those that runs have now.", hint="See `mlbench show --json`."
        )


def _check_devices(record: RunRecord, here: RunRecord) -> None:
    """Raise `UsageError` where an accelerator is missing that the run may have used."""
    if record.runtime.device == _CPU:
        return
    then, now = (Counter(each.name for each in run.environment.accelerators) for run in (record, here))
    if then - now:
        raise UsageError(
            f"run {record.run_id} was made on a machine with {_count(then)}, and this one has {_count(now)}.",
            hint="Replay it there.",
        )


def _count(names: Counter[str]) -> str:
    return ", ".join(_spell(names)) or "no accelerator"


def _spell(names: Counter[str]) -> Iterator[str]:
    for name, count in sorted(names.items()):
        yield f"{count} x {name}" if count > 1 else name
