"""Rebuilds the request of a stored run, for compliance tests and replays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Profile, Weights, Workload
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError, UsageError
from mlbench.planning.requests import RunRequest, settings_of
from mlbench.records.run_outcome import NO_ACCURACY_TEST, NO_METERING
from mlbench.records.run_record import RunRecord
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand
from mlbench.rules.round_parts import Category
from mlbench.rules.tiers import Tier
from mlbench.settings.layers import (
    CORE_TEMPLATES,
    OwnWord,
    Setting,
    Settings,
    guards_of,
    refuse_foreign,
    restore_settings,
)
from mlbench.system.documents import refuse_odd_values

NOT_TRUSTED = OwnWord()


def request_of(record: RunRecord) -> RunRequest:
    """Return the request of a run, without its settings: `settings_as_stored` has them.

    Raises:
        UsageError: this version does not know its precision.
    """
    try:
        precision = Precision(record.precision)
    except ValueError:
        raise UsageError(
            f"run {record.run_id} computed in {record.precision!r}, which this version does not know."
        ) from None
    return RunRequest(
        workload=record.workload,
        backend=record.backend,
        scenario=record.scenario,
        profile=Profile(record.profile),
        tier=Tier(record.tier),
        weights=Weights(record.weights),
        precision=precision,
        transform=record.transform,
        round=record.round,
        wants_accuracy=not record.verdict or record.verdict.not_applied.get("accuracy") != NO_ACCURACY_TEST,
        entry=_entry_of(record),
        power=NONE if record.not_measured.get("energy") == NO_METERING else AUTO,
    )


def _entry_of(record: RunRecord) -> EntryDemand:
    if not (entry := record.entry):
        return ANY_ENTRY
    category = Category(entry.category) if entry.category else None
    return EntryDemand(variant=entry.variant, category=category, division=Division(entry.division))


def check_word(record: RunRecord, values: Mapping[str, object], plugins: Plugins, word: OwnWord) -> None:
    """Refuse settings of a record that only the user may set, since anyone may have written it.

    Settings of all plugins are checked: a folder may be named for another workload than its record.

    Args:
        record: of the run.
        values: those of its settings that are about to be used.
        plugins: must hold the run's.
        word: the user's permission.

    Raises:
        UsageError: it sets such a setting, or the user gives another value; the message names it.
    """
    workload_of_record(record, plugins)  # of a user's own model there is none before
    run = f"run {record.run_id}"
    with refuse_odd_values(f"record of {run}"):
        request = dataclasses.replace(request_of(record), overrides=word.overrides)
        own = settings_of(request, plugins).plain()
    for key in word.overrides:
        if key in values and values[key] != own[key]:
            raise UsageError(f"{key} is {values[key]!r} in {run}, and {own[key]!r} is given.", hint="Make a new run.")
    if not word.trusts:
        of_plugins = [("backend", each.options) for each in plugins.backends.values()]
        of_plugins += [("workload", each.options) for each in plugins.workloads.values()]
        hint = "To allow it, give the same value with --set, or use --trust for all of them."
        refuse_foreign(run, values, guards_of([*CORE_TEMPLATES.items(), *of_plugins], own), hint=hint)


def workload_of_record(record: RunRecord, plugins: Plugins) -> Workload:
    """Return a run's workload; raises as `Plugins.workload_of`. The model of a user's own is not opened."""
    return plugins.workload_of(record.workload, {key: each.value for key, each in record.settings.items()})


def check_scoring(record: RunRecord, plugins: Plugins, word: OwnWord) -> None:
    """Check a record as `check_word`, for the settings that scoring its logs again needs: the workload's."""
    values = {key: each.value for key, each in record.settings.items() if key.startswith("workload.")}
    check_word(record, values, plugins, word)


def settings_as_stored(
    record: RunRecord, plugins: Plugins, word: OwnWord, chosen: Mapping[str, Setting] = {}
) -> Settings:
    """Return a run's settings with their layers; newer settings have their defaults.

    Args:
        record: of the run.
        plugins: must hold the run's.
        word: the user's permission, since the record may be a stranger's.
        chosen: settings for those that the run left open, see `chosen_by_measuring`.

    Raises:
        UsageError: a setting no longer exists, does not allow its value, or may not be set by a record.
        PluginError: the backend's or the workload's plugin is broken.
    """
    check_word(record, {key: each.value for key, each in record.settings.items()}, plugins, word)
    backend, workload = plugins.backend(record.backend), workload_of_record(record, plugins)
    stored = {key: Setting(each.value, each.layer) for key, each in record.settings.items()}
    try:
        return restore_settings({**stored, **chosen}, backend, workload)
    except MlbenchError as error:
        raise UsageError(f"run {record.run_id} cannot be repeated: {error.message}", hint=error.hint) from None


def chosen_by_measuring(record: RunRecord) -> Mapping[str, float]:
    """Return the values that a run chose by measuring: number of instances, batch, rate."""
    plain = {key: each.value for key, each in record.settings.items()}
    found: dict[str, float] = {}
    if plain.get("execution.instances") == "auto" and record.engine.instances:
        found["execution.instances"] = record.engine.instances
    if plain.get("execution.batch") == "auto" and plain.get("execution.batching") != "inline" and record.engine.batch:
        found["execution.batch"] = record.engine.batch
    if not plain.get("load.target_qps") and record.arrivals_per_s is not None:
        found["load.target_qps"] = record.arrivals_per_s
    return found
