"""The request of a stored run, made again: compliance tests and replays begin with it."""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError, UsageError
from mlbench.records.run_outcome import NO_ACCURACY_TEST, NO_METERING
from mlbench.records.run_record import RunRecord
from mlbench.requests import RunRequest
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand
from mlbench.rules.official import Category
from mlbench.rules.tiers import Tier
from mlbench.tuning import Setting, Settings, restore_settings


def request_of(record: RunRecord) -> RunRequest:
    """Return what a run was asked for, without its settings: `settings_as_stored` has them.

    Raises:
        UsageError: its precision is none that this version knows.
    """
    try:
        precision = Precision(record.precision)
    except ValueError:
        raise UsageError(f"run {record.run_id} computed in {record.precision!r}, which is unknown here.") from None
    return RunRequest(
        workload=record.workload,
        backend=record.backend,
        scenario=record.scenario,
        profile=Profile(record.profile),
        tier=Tier(record.tier),
        weights=Weights(record.weights),
        precision=precision,
        wants_accuracy=not record.verdict or record.verdict.not_applied.get("accuracy") != NO_ACCURACY_TEST,
        entry=_entry_of(record),
        power=NONE if record.not_measured.get("energy") == NO_METERING else AUTO,
    )


def _entry_of(record: RunRecord) -> EntryDemand:
    if not (entry := record.entry):
        return ANY_ENTRY
    category = Category(entry.category) if entry.category else None
    return EntryDemand(variant=entry.variant, category=category, division=Division(entry.division))


def settings_as_stored(record: RunRecord, plugins: Plugins, chosen: Mapping[str, Setting] = {}) -> Settings:
    """Return the settings that a run had, each from the layer that gave it; ones that are new have their defaults.

    Args:
        record: of the run.
        plugins: must hold the run's.
        chosen: settings that take the place of those that the run left open, see `chosen_by_measuring`.

    Raises:
        UsageError: a setting no longer exists, or does not take its value.
        PluginError: the backend's or the workload's plugin is broken.
    """
    backend, workload = plugins.backend(record.backend), plugins.workload(record.workload)
    stored = {key: Setting(each.value, each.layer) for key, each in record.settings.items()}
    try:
        return restore_settings({**stored, **chosen}, backend, workload)
    except MlbenchError as error:
        raise UsageError(f"run {record.run_id} cannot be repeated: {error.message}", hint=error.hint) from None


def chosen_by_measuring(record: RunRecord) -> Mapping[str, float]:
    """Return what a run left to itself and chose: number of instances, batch, rate."""
    plain = {key: each.value for key, each in record.settings.items()}
    found: dict[str, float] = {}
    if plain.get("execution.instances") == "auto" and record.engine.instances:
        found["execution.instances"] = record.engine.instances
    if plain.get("execution.batch") == "auto" and plain.get("execution.batching") != "inline" and record.engine.batch:
        found["execution.batch"] = record.engine.batch
    if not plain.get("load.target_qps") and record.arrivals_per_s is not None:
        found["load.target_qps"] = record.arrivals_per_s
    return found
