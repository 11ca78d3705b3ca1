"""The facts of a run that a comparison demands to be the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from mlbench.records.beside import describe_lane
from mlbench.records.run_record import RunRecord, SettingRecord

ENDS_INVALID_RUNS = ("load.end_at_late_share",)
"""Settings that only end runs which have become INVALID."""

KIND = ("workload", "backend", "scenario", "round", "profile", "tier", "weights", "precision", "transform")
"""Facts in which runs of one kind are equal, as requests and records have them."""

TRANSFORMED = "transformed "
"""Before the names of graphs whose fingerprints are those after the transforms."""

MEASURED_BESIDE = ("workload.perplexity",)
"""Settings that measure more after a run's tests, which are the same without them."""

PLACES = ("workload.model", "workload.inputs")
"""Settings that say where a user's own model and inputs lie; fingerprints say what they are."""

_CIRCUMSTANCES = ("workload", "backend", "scenario", "round", "profile", "tier", "weights", "precision")

_CHOSEN_BY_USER = ("command line", "suite", "system", "tune")
"""Layers of settings that a person chose, or that were found for a person: for these very runs, or for the machine."""

_TUNED = ("scenario", "workload", "backend")
"""Layers of settings that a plugin brings, in a tuning file or otherwise."""


def hand_set(record: RunRecord) -> Mapping[str, SettingRecord]:
    """Return the settings that a person chose: on the command line, in a suite, in a file of the machine.

    Without those that only end runs which are INVALID: a valid run is the same without them. Without `MEASURED_BESIDE`
    and `PLACES`, too.
    """
    left_out = (*ENDS_INVALID_RUNS, *MEASURED_BESIDE, *PLACES)
    return {key: each for key, each in _from_layers(record, _CHOSEN_BY_USER).items() if key not in left_out}


def _from_layers(record: RunRecord, layers: Collection[str]) -> Mapping[str, SettingRecord]:
    """Return settings by key. Layers are named ``suite``, but also ``system /etc/x.toml`` and ``backend pytorch``."""
    whole = ("command line", "suite")
    return {
        key: each
        for key, each in record.settings.items()
        if (each.layer if each.layer in whole else each.layer.partition(" ")[0]) in layers
    }


def _settings(record: RunRecord) -> str:
    return settings_as_text(hand_set(record))


def _tuning(record: RunRecord) -> str:
    return settings_as_text(_from_layers(record, _TUNED))


def settings_as_text(settings: Mapping[str, SettingRecord]) -> str:
    """Return the values of settings by key."""
    values = {key: each.value for key, each in settings.items()}
    return json.dumps(values, sort_keys=True) if values else "none"


def _hardware(record: RunRecord) -> str:
    environment = record.environment
    devices = ", ".join(accelerator.name for accelerator in environment.accelerators) or "no accelerator"
    return f"{environment.processor}, {devices} ({environment.machine})"


def _clocks(record: RunRecord) -> str:
    cpu = record.environment.cpu
    clocks = [f"{each.max_clock_mhz} MHz, {each.power_limit_w} W" for each in record.environment.accelerators]
    return "; ".join([f"governor {cpu.governor or 'unknown'}", f"turbo {cpu.turbo}", *clocks])


def _nodes(record: RunRecord) -> str:
    """Return the machines that answered the samples: those of a network, or this one."""
    if not record.network and not record.cluster:
        return "none"
    machines = Counter(each.node.environment.machine for each in record.nodes)
    each = ", ".join(f"{count} x {machine}" for machine, count in sorted(machines.items()))
    is_encrypted = record.network is not None and record.network.is_encrypted
    return f"{each}{' of a cluster' if record.cluster else ''}{', TLS' if is_encrypted else ''}"


def _model(record: RunRecord) -> str:
    return _hashes(record, lambda name: name != "data" and not name.startswith(TRANSFORMED))


def _hashes(record: RunRecord, is_wanted: Callable[[str], bool]) -> str:
    return ", ".join(f"{name} {value[:12]}" for name, value in sorted(record.fingerprints.items()) if is_wanted(name))


def _variant(record: RunRecord) -> str:
    if record.transform and record.is_open:  # it requires none, and was put there for its transform
        return "none"
    made_for = record.imported or record.entry
    return made_for.variant if made_for else "none"


def _number_format(record: RunRecord) -> str:
    found = record.number_format
    return f"stores {found.stores}, computes {found.computes}" if found else "by its name"


IDENTITY: Mapping[str, Callable[[RunRecord], str]] = {
    **{name: lambda record, name=name: str(getattr(record, name)) for name in _CIRCUMSTANCES},  # type: ignore[misc]
    "transform": lambda record: record.transform or "none",
    "settings": _settings,
    "variant": _variant,
    "audit": lambda record: f"{record.audit.test} of {record.audit.of}" if record.audit else "none",
}
"""Facts that make runs repeats of each other. Settings are those set by hand; the others follow from the rest. The
variant is the accuracy variant that a run was made or submitted for; the audit is the compliance test that a run
is."""

CONDITIONS: Mapping[str, Callable[[RunRecord], str]] = {
    "hardware": _hardware,
    "clocks": _clocks,
    "nodes": _nodes,
    "lanes": lambda record: describe_lane(record.beside),
    "tuning": _tuning,
    "compiled": lambda record: record.runtime.compiled or "as its settings say",
    "data": lambda record: record.fingerprints.get("data", "unknown")[:12],
    "model": _model,
    "transformed": lambda record: _hashes(record, lambda name: name.startswith(TRANSFORMED)) or "none",
    "seeds": lambda record: str(record.seeds and record.seeds.model_dump()),
    "loadgen": lambda record: record.loadgen_version,
    "traffic": lambda record: str(record.scenario_facts),
    "number_format": _number_format,
    "memory": lambda record: record.memory,
}
"""Facts that must also be the same on both sides. Tuning is the settings that plugins ship; it follows from the facts
above, so it may differ where one of those is compared across. Lanes are the parts of a machine on which runs were
measured side by side. The model is the untouched one; transformed are its graphs after the transforms, and follow from
these. Compiled is what a backend compiled because the machine can. Traffic is how the scenario sent its
queries when the run was made; it follows from the scenario. The number format is what the backend says that the
precision stores and computes in: it follows from both. Memory is a device's own or the host's: it follows from the
backend."""


def conditions_of(record: RunRecord) -> tuple[str, ...]:
    """Return all facts that runs must share to be compared without ``--across``."""
    return tuple(fact(record) for fact in (*IDENTITY.values(), *CONDITIONS.values()))
