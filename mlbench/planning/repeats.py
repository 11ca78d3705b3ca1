"""The request of a stored run, made again: compliance tests and replays begin with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError, UsageError
from mlbench.planning.requests import RunRequest, settings_of
from mlbench.records.run_outcome import NO_ACCURACY_TEST, NO_METERING
from mlbench.records.run_record import RunRecord
from mlbench.rules.entry_demand import ANY_ENTRY, Division, EntryDemand
from mlbench.rules.official import Category
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


def check_word(record: RunRecord, values: Mapping[str, Any], plugins: Plugins, word: OwnWord) -> None:
    """Refuse settings of a record, which anybody may have written, that only the user's own word may set.

    Those of all plugins are looked at: a folder may be named for another workload than its record is.

    Args:
        record: of the run.
        values: those of its settings that are about to be used.
        plugins: must hold the run's.
        word: what the user says.

    Raises:
        UsageError: it sets one, or the user gives another value; the message names it.
    """
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
        hint = "If you want that, give the same value with --set, or --trust for all of them."
        refuse_foreign(run, values, guards_of([*CORE_TEMPLATES.items(), *of_plugins], own), hint=hint)


def check_scoring(record: RunRecord, plugins: Plugins, word: OwnWord) -> None:
    """Refuse a record as `check_word`, by the settings with which its logs are scored again: the workload's."""
    values = {key: each.value for key, each in record.settings.items() if key.startswith("workload.")}
    check_word(record, values, plugins, word)


def settings_as_stored(
    record: RunRecord, plugins: Plugins, word: OwnWord, chosen: Mapping[str, Setting] = {}
) -> Settings:
    """Return the settings that a run had, each from the layer that gave it; ones that are new have their defaults.

    Args:
        record: of the run.
        plugins: must hold the run's.
        word: what the user says, since the record may be a stranger's.
        chosen: settings that take the place of those that the run left open, see `chosen_by_measuring`.

    Raises:
        UsageError: a setting no longer exists, does not take its value, or is not the record's to set.
        PluginError: the backend's or the workload's plugin is broken.
    """
    check_word(record, {key: each.value for key, each in record.settings.items()}, plugins, word)
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
